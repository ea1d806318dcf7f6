// Package etcdcluster reports the health of the etcd cluster: its members, which of them are healthy, and whether
// they are enough for a quorum. It only reads.
package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// FindEndpoints are the client URLs of the etcd members that run on control planes, as their Pods tell them.
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
		url, _, _ := unstructured.NestedString(p.Object, "metadata", "annotations", manifest.EtcdURLAnnotation)
		if url != "" {
			urls = append(urls, url)
		}
	}
	return urls, nil
}

// LocalClient is how a control plane reaches members at these endpoints with its own certificates.
func LocalClient(p node.Paths, endpoints ...string) state.Etcd {
	return state.Etcd{
		Endpoints: endpoints,
		CAFile:    p.Cert("etcd/ca"),
		CertFile:  p.Cert("etcd/healthcheck-client"),
		KeyFile:   p.Key("etcd/healthcheck-client"),
	}
}

// Health is an etcd cluster at one moment: its members, and what each said when it was called up.
type Health struct {
	Members []state.Member
	Said    map[uint64]state.MemberStatus // by ID, of those that are well
	Silent  map[uint64]error              // by ID, of all others: why they are not
}

// ReportedProblems is the error of a member that answers, and says what is wrong with it.
type ReportedProblems string

func (u ReportedProblems) Error() string { return string(u) }

// How long a member may take to answer. One that has just started keeps those who ask waiting for seconds.
const (
	quickTimeout = 200 * time.Millisecond
	checkTimeout = 10 * time.Second
)

// CheckHealthQuickly is CheckHealth where little depends on what the members say: who does not answer at once counts as silent.
func CheckHealthQuickly(ctx context.Context, r state.Reader, via state.Etcd) (Health, error) {
	return checkHealth(ctx, r, via, quickTimeout)
}

// CheckHealth lists the members and asks them all at once how they are.
func CheckHealth(ctx context.Context, r state.Reader, via state.Etcd) (Health, error) {
	return checkHealth(ctx, r, via, checkTimeout)
}

func checkHealth(ctx context.Context, r state.Reader, via state.Etcd, limit time.Duration) (Health, error) {
	roll := Health{Said: map[uint64]state.MemberStatus{}, Silent: map[uint64]error{}}
	var err error
	if roll.Members, err = r.Members(ctx, via); err != nil {
		return roll, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range roll.Members {
		wg.Go(func() {
			s, err := r.MemberStatus(ctx, via, m)
			if err == nil && len(s.Problems) > 0 {
				err = ReportedProblems(strings.Join(s.Problems, "; "))
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				roll.Silent[m.ID] = err
				return
			}
			roll.Said[m.ID] = s
		})
	}
	wg.Wait()
	return roll, nil
}

// Endpoints are the client URLs of all voters, first of those that are well.
func (r Health) Endpoints() []string {
	var well, others []string
	for _, m := range r.Members {
		switch _, said := r.Said[m.ID]; {
		case m.Learner:
		case said:
			well = append(well, m.ClientURLs...)
		default:
			others = append(others, m.ClientURLs...)
		}
	}
	return append(well, others...)
}

// At is the member with that peer URL, or nil.
func (r Health) At(peerURL string) *state.Member {
	return r.find(func(m state.Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
}

// Called is the member with that name or hexadecimal ID, or nil.
func (r Health) Called(name string) *state.Member {
	return r.find(func(m state.Member) bool {
		return m.Name == name && name != "" || MemberName(m) == name || hexID(m) == name
	})
}

func (r Health) find(is func(state.Member) bool) *state.Member {
	i := slices.IndexFunc(r.Members, is)
	if i < 0 {
		return nil
	}
	return &r.Members[i]
}

// Without is the roll as if the member with that peer URL were not on it.
func (r Health) Without(peerURL string) Health {
	r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(m state.Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
	return r
}

// Down are the voters that do not answer or are not well.
func (r Health) Down() []state.Member {
	return slices.DeleteFunc(slices.Clone(r.Members), func(m state.Member) bool { return m.Learner || r.Silent[m.ID] == nil })
}

// Learner is the member that is being added, or nil.
func (r Health) Learner() *state.Member {
	return r.find(func(m state.Member) bool { return m.Learner })
}

// Quorum is an error if those voters that are well are too few to decide anything. Members that are without are
// left out of the count, as if they were removed.
func (r Health) Quorum(without ...uint64) error {
	var voters, well int
	var down []error
	for _, m := range r.Members {
		if m.Learner || slices.Contains(without, m.ID) {
			continue
		}
		voters++
		if err := r.Silent[m.ID]; err != nil {
			down = append(down, err)
			continue
		}
		well++
	}
	if well > voters/2 {
		return nil
	}
	if voters == 0 {
		return errors.New("no voting etcd member is left")
	}
	return fmt.Errorf("of %d voting etcd members %d are well, and %d must be: %w", voters, well, voters/2+1, errors.Join(down...))
}

// QuorumAnswers reports whether enough voters for a quorum answer, be they well or not. While etcd elects a leader,
// its members answer that they have none; where it has lost its quorum, too many do not answer at all.
func (r Health) QuorumAnswers() bool {
	var voters, answer int
	for _, m := range r.Members {
		if m.Learner {
			continue
		}
		voters++
		silent := r.Silent[m.ID]
		if _, unwell := errors.AsType[ReportedProblems](silent); unwell || silent == nil {
			answer++
		}
	}
	return answer > voters/2
}

// CaughtUp is an error as long as a member has applied less than nine tenths of what any other has: etcd's own measure for a
// learner that may be promoted.
func (r Health) CaughtUp(id uint64) error {
	var newest uint64
	for _, s := range r.Said {
		newest = max(newest, s.Index)
	}
	if has := r.Said[id].Index; has < newest-newest/10 {
		return fmt.Errorf("it has %d of %d changes", has, newest)
	}
	return nil
}

// MemberName is what a member is called: its name, or its hexadecimal ID as long as it has not started.
func MemberName(m state.Member) string {
	if m.Name == "" {
		return hexID(m)
	}
	return m.Name
}

func hexID(m state.Member) string { return strconv.FormatUint(m.ID, 16) }
