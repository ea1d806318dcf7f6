// Package etcdcluster reports the health of the etcd cluster: its members, which of them are
// healthy, and whether they are enough for a quorum. It only reads.
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

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

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

// CheckMembers is CheckHealth for a client of a cluster that may have lost its quorum: then the list of
// the members is what one of them knows, and isStale is set.
func (c Client) CheckMembers(ctx context.Context, r state.Reader) (h Health, isStale bool, err error) {
	h, err = CheckHealth(ctx, r, c.Etcd)
	if err == nil || ctx.Err() != nil {
		return h, false, err
	}
	via := c.Etcd
	via.Serializable = true
	h, failed := CheckHealth(ctx, r, via)
	if failed != nil {
		return h, false, errors.Join(err, context.Cause(ctx))
	}
	return h, true, nil
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

// FormatID returns the ID of a member as etcd's own tools write it.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }

// FormatSize returns a number of bytes in the unit that keeps it short.
func FormatSize(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
}
