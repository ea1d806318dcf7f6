package etcdcluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

func TestFindConflicts(t *testing.T) {
	voters := newHealth().Members[:3]
	removed := state.Member{ID: 9, PeerURLs: []string{"https://old:2380"}}
	withRemoved := append(slices.Clone(voters), removed)
	asLearner := slices.Clone(voters)
	asLearner[2].Learner = true
	unnamed := slices.Clone(voters)
	unnamed[2].Name, unnamed[2].ClientURLs = "", nil
	for name, c := range map[string]struct {
		lists map[uint64][]state.Member
		down  []uint64
		want  map[uint64]string
	}{
		"all agree":               {},
		"a name is not known yet": {lists: map[uint64][]state.Member{2: unnamed}},
		"one knows a removed member": {lists: map[uint64][]state.Member{2: withRemoved},
			want: map[uint64]string{2: "it lists voter 9 at https://old:2380, which the others do not"}},
		"one does not know another": {lists: map[uint64][]state.Member{3: voters[:2]},
			want: map[uint64]string{3: "it does not list voter 3 at https://c:2380"}},
		"one takes a voter for a learner": {lists: map[uint64][]state.Member{1: asLearner},
			want: map[uint64]string{1: "it lists learner 3 at https://c:2380, which the others list as voter 3 at https://c:2380"}},
		"most know a member that etcd does not list": {lists: map[uint64][]state.Member{1: withRemoved, 2: withRemoved},
			want: map[uint64]string{3: "it does not list voter 9 at https://old:2380"}},
		"the one that contradicts does not answer": {lists: map[uint64][]state.Member{2: withRemoved}, down: []uint64{2}},
		"no quorum": {lists: map[uint64][]state.Member{1: withRemoved}, down: []uint64{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			w.MemberList, w.UnreachableMembers, w.OwnLists = voters, c.down, c.lists
			via := state.Etcd{Serializable: true}
			h, err := CheckHealth(t.Context(), w, via)
			if err != nil {
				t.Fatal(err)
			}
			found := FindConflicts(t.Context(), w, via, h)
			if !slices.Equal(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(c.want))) {
				t.Fatalf("got %v, want %v", found, c.want)
			}
			for id, want := range c.want {
				if !strings.HasSuffix(found[id].Error(), ": "+want) || !Answers(found[id]) {
					t.Errorf("member %d: got %v, want %s", id, found[id], want)
				}
			}
		})
	}
}

// Members that agree after a moment do not contradict each other.
func TestConflictThatPasses(t *testing.T) {
	w := fake.New()
	w.MemberList = newHealth().Members[:3]
	late := &lateMember{World: w, late: w.MemberList[2], reads: 2}
	h, err := CheckHealth(t.Context(), w, state.Etcd{})
	if err != nil {
		t.Fatal(err)
	}
	if found := FindConflicts(t.Context(), late, state.Etcd{}, h); len(found) > 0 || late.reads > 0 {
		t.Errorf("conflicts %v, and %d reads were left", found, late.reads)
	}
}

func TestMemberOfAnotherCluster(t *testing.T) {
	w := fake.New()
	w.MemberList = newHealth().Members[:3]
	w.MemberStatuses = map[uint64]state.MemberStatus{}
	for i := range w.MemberList {
		w.MemberList[i].ClusterID = 7
		w.MemberStatuses[w.MemberList[i].ID] = state.MemberStatus{ClusterID: 7}
	}
	w.MemberStatuses[2] = state.MemberStatus{ClusterID: 8}
	h, err := CheckHealth(t.Context(), w, state.Etcd{})
	if err != nil || len(h.Unhealthy) != 1 || !Answers(h.Unhealthy[2]) || len(h.Answered) != 2 || h.CheckQuorum() != nil ||
		!strings.Contains(h.Unhealthy[2].Error(), "https://b:2379, a member of another etcd cluster answers (cluster 8 instead of 7)") {
		t.Errorf("%v: %+v", err, h)
	}
}

// lateMember is a member that learns of another one after some reads.
type lateMember struct {
	*fake.World
	late  state.Member
	mu    sync.Mutex
	reads int
}

func (l *lateMember) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	all, err := l.World.Members(ctx, via)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads == 0 || !slices.Equal(via.Endpoints, l.late.ClientURLs) {
		return all, err
	}
	l.reads--
	return all[:2], err
}
