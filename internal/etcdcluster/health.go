// Package etcdcluster reports the health of the etcd cluster: its members, which of them are
// healthy, and whether they are enough for a quorum. It only reads.
package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// FindEndpoints returns the client URLs of the etcd members that run on control planes. It reads
// them from an annotation of their Pods. As the kubelet of any node can create such a Pod, only URLs of
// servers that must prove who they are, by TLS, are returned.
func FindEndpoints(ctx context.Context, r state.Reader, as state.Identity) ([]string, error) {
	pods, err := r.List(ctx, state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "kube-system",
		LabelSelector: "component=etcd,tier=control-plane", As: as,
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the Pods of etcd: %w", err)
	}
	var urls []string
	for _, p := range pods {
		text, _, _ := unstructured.NestedString(p.Object, "metadata", "annotations",
			manifest.EtcdURLAnnotation)
		if u, err := url.Parse(text); err == nil && u.Scheme == "https" && u.Port() != "" && u.Hostname() != "" &&
			u.User == nil && strings.Trim(u.Path, "/") == "" {
			urls = append(urls, text)
		}
	}
	return urls, nil
}

// LocalClient returns the endpoints with the client certificate of this control plane.
func LocalClient(p node.Paths, endpoints ...string) state.Etcd {
	return state.Etcd{
		Endpoints: endpoints,
		CAFile:    p.Cert("etcd/ca"),
		CertFile:  p.Cert("etcd/healthcheck-client"),
		KeyFile:   p.Key("etcd/healthcheck-client"),
	}
}

// Health is the health of an etcd cluster at one moment.
type Health struct {
	Members   []state.Member
	Healthy   map[uint64]state.MemberStatus // status of the healthy members, by ID
	Unhealthy map[uint64]error              // why the other members are not healthy, by ID
	// Answered has the status of every member that answers, healthy or not, by ID.
	Answered map[uint64]state.MemberStatus
}

// ReportedProblems is the error of a member that answers and reports problems, such as an alarm.
type ReportedProblems string

func (u ReportedProblems) Error() string { return string(u) }

// OtherCluster is the error of a member at whose address a member of another etcd cluster answers: it has other
// data, such as from before a restore.
type OtherCluster string

func (o OtherCluster) Error() string { return string(o) }

func checkCluster(m state.Member, s state.MemberStatus) error {
	if m.ClusterID == 0 || s.ClusterID == m.ClusterID {
		return nil
	}
	return OtherCluster(fmt.Sprintf("at %s, a member of another etcd cluster answers (cluster %s instead of %s)",
		untrusted.Line(strings.Join(m.ClientURLs, ", ")), FormatID(s.ClusterID), FormatID(m.ClusterID)))
}

// How long a member may take to answer. One that has just started may take seconds.
const (
	quickTimeout = 200 * time.Millisecond
	checkTimeout = 10 * time.Second
)

// CheckHealthQuickly is CheckHealth with a short timeout: a member that does not answer within it
// counts as unhealthy.
func CheckHealthQuickly(ctx context.Context, r state.Reader, via state.Etcd) (Health, error) {
	return checkHealth(ctx, r, via, quickTimeout)
}

// CheckHealth lists the members and asks all of them at once for their status.
func CheckHealth(ctx context.Context, r state.Reader, via state.Etcd) (Health, error) {
	return checkHealth(ctx, r, via, checkTimeout)
}

func checkHealth(ctx context.Context, r state.Reader, via state.Etcd,
	limit time.Duration) (Health, error) {
	health := Health{Healthy: map[uint64]state.MemberStatus{}, Unhealthy: map[uint64]error{},
		Answered: map[uint64]state.MemberStatus{}}
	var err error
	if health.Members, err = r.Members(ctx, via); err != nil {
		return health, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range health.Members {
		wg.Go(func() {
			status, err := r.MemberStatus(ctx, via, m)
			if err == nil {
				err = checkCluster(m, status)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				health.Answered[m.ID] = status
			}
			if err == nil && len(status.Problems) > 0 {
				err = ReportedProblems(strings.Join(status.Problems, "; "))
			}
			if err != nil {
				health.Unhealthy[m.ID] = err
				return
			}
			health.Healthy[m.ID] = status
		})
	}
	wg.Wait()
	return health, nil
}

// Endpoints returns the client URLs of all voting members, those of healthy members first.
func (h Health) Endpoints() []string {
	var healthy, others []string
	for _, m := range h.Members {
		switch _, ok := h.Healthy[m.ID]; {
		case m.Learner:
		case ok:
			healthy = append(healthy, m.ClientURLs...)
		default:
			others = append(others, m.ClientURLs...)
		}
	}
	return append(healthy, others...)
}

// FindByPeerURL returns the member with that peer URL, or nil.
func (h Health) FindByPeerURL(peerURL string) *state.Member {
	return h.findMember(func(m state.Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
}

// FindByNameOrID returns the member with that name or hexadecimal ID, or nil.
func (h Health) FindByNameOrID(name string) *state.Member {
	return h.findMember(func(m state.Member) bool {
		return MemberName(m) == name || FormatID(m.ID) == name
	})
}

// FindLearner returns the learner, or nil. etcd allows one at a time.
func (h Health) FindLearner() *state.Member {
	return h.findMember(func(m state.Member) bool { return m.Learner })
}

func (h Health) findMember(matches func(state.Member) bool) *state.Member {
	i := slices.IndexFunc(h.Members, matches)
	if i < 0 {
		return nil
	}
	return &h.Members[i]
}

// WithoutPeer returns the health without the member that has that peer URL.
func (h Health) WithoutPeer(peerURL string) Health {
	h.Members = slices.DeleteFunc(slices.Clone(h.Members), func(m state.Member) bool {
		return slices.Contains(m.PeerURLs, peerURL)
	})
	return h
}

// UnhealthyVoters returns the voting members that are not healthy.
func (h Health) UnhealthyVoters() []state.Member {
	return slices.DeleteFunc(slices.Clone(h.Members), func(m state.Member) bool {
		return m.Learner || h.Unhealthy[m.ID] == nil
	})
}

// CheckQuorum returns an error if fewer voting members are healthy than a quorum needs. Members
// whose IDs are in removed do not count.
func (h Health) CheckQuorum(removed ...uint64) error {
	var voters, healthy int
	var causes []error
	for _, m := range h.Members {
		if m.Learner || slices.Contains(removed, m.ID) {
			continue
		}
		voters++
		if err := h.Unhealthy[m.ID]; err != nil {
			causes = append(causes, err)
			continue
		}
		healthy++
	}
	if voters == 0 {
		return errors.New("no voting etcd member is left")
	}
	if needed := voters/2 + 1; healthy < needed {
		return fmt.Errorf("%d of %d voting etcd members are healthy, and a quorum needs %d: %w",
			healthy, voters, needed, errors.Join(causes...))
	}
	return nil
}

// HasAnsweringQuorum reports whether enough voting members for a quorum answer, healthy or not.
// While etcd elects a leader, its members answer that there is no leader; after the loss of the
// quorum, too many do not answer at all.
func (h Health) HasAnsweringQuorum() bool {
	var voters, answering int
	for _, m := range h.Members {
		if m.Learner {
			continue
		}
		voters++
		err := h.Unhealthy[m.ID]
		if _, answers := errors.AsType[ReportedProblems](err); answers || err == nil {
			answering++
		}
	}
	return answering > voters/2
}

// CheckAppliedIndex returns an error while the applied index of a member is below nine tenths of
// the highest one. etcd promotes a learner by the same measure (isLearnerReady in
// server/etcdserver/server.go).
func (h Health) CheckAppliedIndex(id uint64) error {
	var highest uint64
	for _, s := range h.Healthy {
		highest = max(highest, s.AppliedIndex)
	}
	if applied := h.Healthy[id].AppliedIndex; applied < highest-highest/10 {
		return fmt.Errorf("its applied index is %d, that of the cluster is %d", applied, highest)
	}
	return nil
}

// MemberName returns the name of a member, or its hexadecimal ID if it has not started and so has
// no name.
func MemberName(m state.Member) string {
	if m.Name == "" {
		return FormatID(m.ID)
	}
	return m.Name
}
