package cli

import (
	"strings"
	"testing"

	"kubeadm/internal/state"
)

// What works, and looks like a defect at the first glance, is no finding.
func TestDoctorAcceptsWhatWorks(t *testing.T) {
	for name, plant := range map[string]func(*testing.T, *testMachine){
		"kubeconfig with another name of the certificate": edit("/etc/kubernetes/scheduler.conf",
			"https://192.0.2.10:6443", "https://cp1:6443"),
		"interfaces of Pod networks": func(_ *testing.T, s *testMachine) {
			for name, mtu := range map[string]int{"cilium_vxlan": 1500, "lxc1": 1500, "cilium_host": 1500,
				"vxlan-6784": 65485, "vethwepl1": 1376, "weave": 1376, "cali1": 1450, "vxlan.calico": 1450,
				"vxlan-v6.calico": 1430, "flannel.1": 1450, "flannel.ipip": 1480, "flannel-wg": 1420,
				"cni-podman0": 9000, "tunl0": 9000} {
				s.world.LinkList = append(s.world.LinkList, state.Link{Name: name, MTU: mtu})
			}
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newHealthyNode(t)
			plant(t, s)
			d, code := s.diagnose(t)
			if len(d.Findings) > 0 || code != 0 {
				t.Errorf("exit code %d:\n%s", code, describeFindings(d))
			}
			for _, n := range d.NotChecked {
				t.Errorf("not checked: %s: %s", n.Check, n.Reason)
			}
		})
	}
}
