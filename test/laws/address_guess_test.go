package laws

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// While no API server answers, it is guessed whether the kubelet has another address than the API server beside it. Once one
// answers, what the Node has counts, before the kubelet gets an address.
func TestGuessAboutNodeIsCorrected(t *testing.T) {
	const other, flags = "198.51.100.7", "/var/lib/kubelet/kubeadm-flags.env"
	for name, c := range map[string]struct {
		interfaces []state.Address
		has        string // the Node
	}{
		"the Node has an address of its own": {[]state.Address{
			{IP: other, Bits: 24, Interface: "eth1", DefaultRoute: true}, {IP: newAddress, Bits: 24, Interface: "eth0"}},
			other},
		// The new address is one of two with a default route, and a kubelet would choose the other one.
		"the Node has the other address": {[]state.Address{
			{IP: other, Bits: 24, Interface: "eth1", DefaultRoute: true},
			{IP: newAddress, Bits: 24, Interface: "eth0", DefaultRoute: true}}, other},
	} {
		t.Run(name, func(t *testing.T) {
			machine := func(t testing.TB) *fake.World {
				w := newMovedMachine(t)
				w.Interfaces = c.interfaces
				setNodeAddress(t, w, "cp1", c.has)
				return w
			}
			check := func(t *testing.T, w *fake.World) {
				t.Helper()
				if got := string(w.Files[flags].Data); strings.Contains(got, "--node-ip") {
					t.Errorf("the kubelet is told: %s", got)
				}
				u := w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}]
				if all, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses"); len(all) != 1 ||
					all[0].(map[string]any)["address"] != c.has {
					t.Errorf("the Node has %v", all)
				}
			}
			s := changeAddress(machine, newAddress)
			r := s.newRun(machine(t))
			r.mustSucceed(t)
			check(t, r.machine)
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				r.rerun().mustSucceed(t)
				check(t, r.machine)
			})
		})
	}
}
