package etcdcluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// newHealth has three voting members, some of which are down, and a learner that has not started.
func newHealth(down ...uint64) Health {
	r := Health{Healthy: map[uint64]state.MemberStatus{}, Unhealthy: map[uint64]error{}}
	for id, name := range []string{"a", "b", "c"} {
		m := state.Member{ID: uint64(id + 1), Name: name,
			PeerURLs:   []string{"https://" + name + ":2380"},
			ClientURLs: []string{"https://" + name + ":2379"}}
		r.Members = append(r.Members, m)
		if slices.Contains(down, m.ID) {
			r.Unhealthy[m.ID] = errors.New("connection refused")
			continue
		}
		r.Healthy[m.ID] = state.MemberStatus{AppliedIndex: 1}
	}
	r.Members = append(r.Members,
		state.Member{ID: 255, Learner: true, PeerURLs: []string{"https://d:2380"}})
	return r
}

func TestQuorumAfterRemoval(t *testing.T) {
	for _, c := range []struct {
		down, removed []uint64
		quorum        bool
	}{
		{nil, nil, true},
		{[]uint64{1}, nil, true},
		{[]uint64{1}, []uint64{1}, true},
		{[]uint64{1}, []uint64{2}, false},
		{[]uint64{1, 2}, nil, false},
		{[]uint64{1, 2}, []uint64{1, 2}, true},
		{nil, []uint64{1, 2, 3}, false},
	} {
		if err := newHealth(c.down...).CheckQuorum(c.removed...); (err == nil) != c.quorum ||
			err != nil && strings.Contains(err.Error(), "%!") {
			t.Errorf("down %v, removed %v: %v", c.down, c.removed, err)
		}
	}
}

func TestFindMember(t *testing.T) {
	r := newHealth(2)
	if m := r.FindByNameOrID("b"); m == nil || m.ID != 2 {
		t.Errorf("by name: %+v", m)
	}
	if m := r.FindByNameOrID("ff"); m == nil || !m.Learner || MemberName(*m) != "ff" {
		t.Errorf("by ID: %+v", m)
	}
	if m := r.FindByNameOrID(""); m != nil {
		t.Errorf("by an empty name: %+v", m)
	}
	if m := r.FindByPeerURL("https://c:2380"); m == nil || m.ID != 3 {
		t.Errorf("by address: %+v", m)
	}
	if down := r.UnhealthyVoters(); len(down) != 1 || down[0].ID != 2 {
		t.Errorf("down: %+v", down)
	}
	if got, want := r.Endpoints(),
		[]string{"https://a:2379", "https://c:2379", "https://b:2379"}; !slices.Equal(got, want) {
		t.Errorf("endpoints %v, want %v", got, want)
	}
}

// The kubelet of a worker can create a mirror Pod that claims to be of etcd. A client would talk to an "http" URL
// without TLS.
func TestForeignEndpointsAreLeftOut(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	for i, url := range []string{"https://192.0.2.10:2379", "http://203.0.113.9:2379", "unix:///tmp/etcd", "https://%zz:1",
		"https://192.0.2.11", "https://[2001:db8::1]:2379", "https://user@192.0.2.12:2379", ""} {
		err := w.AddObjects(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: etcd-%d, namespace: kube-system,
  labels: {component: etcd, tier: control-plane},
  annotations: {kubeadm.kubernetes.io/etcd.advertise-client-urls: %q}}}`, i, url))
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := FindEndpoints(t.Context(), w, state.Identity{})
	if want := []string{"https://192.0.2.10:2379", "https://[2001:db8::1]:2379"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: %v", got, want, err)
	}
}
