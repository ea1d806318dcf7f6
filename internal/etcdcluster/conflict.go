package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// conflictTimeout is how long members may disagree: one may learn of a change a moment after the others.
const conflictTimeout = 5 * time.Second

// Conflict is the error of a member that answers, but whose own list of the members contradicts that of the others.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// DescribeConflict says in one clause which member contradicts the others.
func DescribeConflict(m state.Member) string {
	return fmt.Sprintf("etcd member %s knows other members than the others do", MemberName(m))
}

// RejoinRemedy is the remedy for a member that contradicts the others, or belongs to another etcd cluster;
// its command is "kubeadm etcd rejoin".
const RejoinRemedy = "replace its data by those of the other members, on its node"

// Answers reports whether an error of Unhealthy, or a conflict, is that of a member that answers.
func Answers(err error) bool {
	_, reports := errors.AsType[ReportedProblems](err)
	_, isOther := errors.AsType[OtherCluster](err)
	_, contradicts := errors.AsType[Conflict](err)
	return reports || isOther || contradicts
}

// FindConflicts asks each healthy member which members the cluster has by its own data, and returns those
// that contradict the majority, by ID, with what differs. etcd elects a leader and serves requests
// meanwhile, but a member that does not know another one, or knows one that was removed, counts
// another quorum than the others. Members have five seconds to agree. Of via, the endpoints do not matter. Without a
// quorum there is nothing to agree with.
func FindConflicts(ctx context.Context, r state.Reader, via state.Etcd, h Health) map[uint64]error {
	if len(h.Healthy) < 2 || h.CheckQuorum() != nil {
		return nil
	}
	var found map[uint64]error
	_ = world.Poll(ctx, r, world.Condition{
		Name: "etcd's members to list the same members", Timeout: conflictTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			lists := h.readLists(ctx, r, via)
			if ctx.Err() != nil { // what was found by the last complete comparison counts
				return ctx.Err()
			}
			found = compareLists(h.Members, lists)
			return errors.Join(slices.Collect(maps.Values(found))...)
		},
	})
	return found
}

// readLists returns what the healthy members list, by ID. One that does not answer has no list: its health
// says so.
func (h Health) readLists(ctx context.Context, r state.Reader, via state.Etcd) map[uint64][]state.Member {
	lists := map[uint64][]state.Member{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range h.Members {
		if _, ok := h.Healthy[m.ID]; !ok {
			continue
		}
		own := via
		own.Endpoints, own.Serializable = m.ClientURLs, true
		wg.Go(func() {
			if all, err := r.Members(ctx, own); err == nil {
				mu.Lock()
				defer mu.Unlock()
				lists[m.ID] = all
			}
		})
	}
	wg.Wait()
	return lists
}

// compareLists returns what differs in the lists of those members that contradict the majority. If no list is that
// of more than half, the one that consensus returned counts.
func compareLists(agreed []state.Member, lists map[uint64][]state.Member) map[uint64]error {
	isSame := func(a, b []state.Member) bool { return maps.Equal(describeMembers(a), describeMembers(b)) }
	for _, list := range lists {
		votes := 0
		for _, other := range lists {
			if isSame(list, other) {
				votes++
			}
		}
		if 2*votes > len(lists) {
			agreed = list
		}
	}
	found := map[uint64]error{}
	for id, list := range lists {
		if !isSame(list, agreed) {
			found[id] = newConflict(list, agreed)
		}
	}
	return found
}

// newConflict says how the list of a member differs from that of the others.
func newConflict(own, others []state.Member) Conflict {
	mine, theirs := describeMembers(own), describeMembers(others)
	var differences []string
	for _, id := range slices.Sorted(maps.Keys(mine)) {
		switch known := theirs[id]; known {
		case mine[id]:
		case "":
			differences = append(differences, fmt.Sprintf("it lists %s, which the others do not", mine[id]))
		default:
			differences = append(differences, fmt.Sprintf("it lists %s, which the others list as %s", mine[id], known))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(theirs)) {
		if mine[id] == "" {
			differences = append(differences, fmt.Sprintf("it does not list %s", theirs[id]))
		}
	}
	return Conflict("its list of the members contradicts that of the others: " + strings.Join(differences, "; "))
}

// describeMembers returns a text for each member, by ID. Names and client URLs are left out: members publish
// them some time after they have started.
func describeMembers(list []state.Member) map[uint64]string {
	all := map[uint64]string{}
	for _, m := range list {
		kind := "voter"
		if m.Learner {
			kind = "learner"
		}
		urls := strings.Join(slices.Sorted(slices.Values(m.PeerURLs)), " and ")
		all[m.ID] = fmt.Sprintf("%s %s at %s", kind, FormatID(m.ID), untrusted.Line(urls))
	}
	return all
}
