package nodeaddress

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/state"
)

// A kubelet that is told no address takes the first one of the interface with the default route.
func TestChosenAddress(t *testing.T) {
	own := []state.Address{{IP: "192.0.2.1"}, {IP: "2001:db8::1", DefaultRoute: true}, {IP: "192.0.2.2", DefaultRoute: true},
		{IP: "192.0.2.3", DefaultRoute: true}}
	for to, want := range map[string]bool{"192.0.2.1": false, "192.0.2.2": true, "192.0.2.3": false, "2001:db8::1": true,
		"2001:db8::2": false} {
		if got := (Intent{Move: Move{To: to}}).isFirst(own); got != want {
			t.Errorf("%s is chosen: %t", to, got)
		}
	}
}

// Pods may have addresses of the network of the nodes; where nodes have none of them, no node gets one.
func TestRangesOfPods(t *testing.T) {
	ranges := map[string]string{"Pods": "10.0.0.0/16", "Services": "10.96.0.0/12"}
	for _, c := range []struct {
		move    Move
		refused bool
	}{
		{Move{To: "10.0.1.2", From: []string{"192.0.2.1"}}, true},
		{Move{To: "10.0.1.2", From: []string{"10.0.0.1"}}, false},
		{Move{To: "10.97.1.2", From: []string{"10.0.0.1"}}, true},
		{Move{To: "192.0.2.1", From: []string{"10.0.0.1"}}, false},
	} {
		if err := c.move.checkRanges(ranges); (err != nil) != c.refused {
			t.Errorf("%v: %v", c.move, err)
		}
	}
}

// The member of this machine is found wherever an interrupted move has left it, and no other one in its place.
func TestFindMember(t *testing.T) {
	member := func(id uint64, name, host string) state.Member {
		return state.Member{ID: id, Name: name, PeerURLs: []string{"https://" + host + ":2380"}}
	}
	i := Intent{Move: Move{To: "192.0.2.20", From: []string{"192.0.2.10"}},
		Member: &etcddata.Member{Name: "cp1", PeerURL: "https://192.0.2.10:2380"}}
	lost := member(1, "cp2", "192.0.2.20")
	for name, c := range map[string]struct {
		members []state.Member
		want    uint64
	}{
		"before the move":                    {[]state.Member{lost, member(2, "cp1", "192.0.2.10")}, 2},
		"after it":                           {[]state.Member{member(3, "cp3", "192.0.2.12"), member(2, "cp1", "192.0.2.20")}, 2},
		"moved by hand":                      {[]state.Member{lost, member(2, "cp1", "192.0.2.30")}, 2},
		"it has never started":               {[]state.Member{member(2, "", "192.0.2.20")}, 2},
		"only another one, which is lost":    {[]state.Member{lost}, 0},
		"its name is that of another member": {[]state.Member{member(1, "cp1", "192.0.2.30"), member(2, "other", "192.0.2.10")}, 2},
	} {
		found := i.FindMember(etcdcluster.Health{Members: c.members})
		if got := found; (got == nil) != (c.want == 0) || got != nil && got.ID != c.want {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

// What the Node has replaces a guess, and nothing else.
func TestLookAt(t *testing.T) {
	for name, c := range map[string]struct {
		has              string
		guess, isGuessed bool
		keeps            bool
	}{
		"the previous address":           {"192.0.2.10", true, true, false},
		"the new address":                {"192.0.2.20", true, true, false},
		"an address of its own":          {"198.51.100.7", false, true, true},
		"no address":                     {"", true, true, false},
		"an address, and it was told so": {"192.0.2.10", true, false, true},
	} {
		var n corev1.Node
		if c.has != "" {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "cp1"},
				{Type: corev1.NodeInternalIP, Address: c.has}}
		}
		i := Intent{Move: Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}, KeepsNode: c.guess, IsGuessed: c.isGuessed}
		if i.LookAt(n); i.KeepsNode != c.keeps || i.IsGuessed {
			t.Errorf("%s: it keeps its address: %v, guessed: %v", name, i.KeepsNode, i.IsGuessed)
		}
	}
}
