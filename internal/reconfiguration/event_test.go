package reconfiguration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

func TestReportEvent(t *testing.T) {
	effects := Effects{Certificates: []string{"apiserver"}, Restarted: []string{"kube-apiserver"}, Kubelet: true, CoreDNS: true}
	for role, want := range map[node.Role]string{
		node.ControlPlane: "This node has the configuration of change abc, which takes back change def: new certificates apiserver; " +
			"restarted kube-apiserver, kubelet",
		node.Worker: "This node has the configuration of change abc, which takes back change def: restarted kubelet",
	} {
		n := &node.Node{Local: node.Local{Name: "n1", Role: role}}
		s := &State{ID: "abc", Undoes: "def"}
		applied := s.ReportEvent(n, state.Identity{}, effects, time.Unix(1, 0)).(change.ApplyObject)
		event := applied.Object.(*corev1.Event)
		if event.Message != want || event.Name != "n1.kubeadm-abc" || event.InvolvedObject.UID != "n1" || !applied.Unread {
			t.Errorf("%v: got %+v", role, event)
		}
	}
}
