package nodename

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/node"
)

// The new Node has what an administrator has set, and nothing that describes the previous one.
func TestNewNode(t *testing.T) {
	old := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1",
		Labels: map[string]string{"disk": "ssd", corev1.LabelHostname: "w1", "topology.kubernetes.io/zone": "a",
			"topology.lvm.example/node": "w1"},
		Annotations: map[string]string{"example.com/rack": "r7", "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/c.sock",
			"kubeadm.kubernetes.io/reconfiguration": "abc", "node.alpha.kubernetes.io/ttl": "0",
			"volumes.kubernetes.io/controller-managed-attach-detach": "true", "flannel.alpha.coreos.com/backend-data": "x",
			"projectcalico.org/IPv4Address": "x", "network.cilium.io/ipv4-pod-cidr": "x", "csi.volume.kubernetes.io/nodeid": "x",
			"k8s.ovn.org/node-subnets": "x", "plain": "yes"}},
		Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
			{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}}}}
	n := Record{Original: "w1", Other: "w2", To: "w2"}.NewNode(old, "topology.lvm.example/node", corev1.LabelHostname)
	if n.Name != "w2" || !n.Spec.Unschedulable || n.Spec.PodCIDR != "" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("%s %+v", n.Name, n.Spec)
	}
	if want := map[string]string{"disk": "ssd", corev1.LabelHostname: "w2", "topology.kubernetes.io/zone": "a"}; !maps.Equal(n.Labels, want) {
		t.Errorf("labels %v", n.Labels)
	}
	want := []string{"example.com/rack", "kubeadm.alpha.kubernetes.io/cri-socket", "kubeadm.kubernetes.io/reconfiguration",
		node.RenamedFromAnnotation, "plain"}
	if got := slices.Sorted(maps.Keys(n.Annotations)); !slices.Equal(got, want) {
		t.Errorf("annotations %v", got)
	}
	if n.Annotations[node.RenamedFromAnnotation] != "w1" || old.Labels[corev1.LabelHostname] != "w1" {
		t.Errorf("%v %v", n.Annotations, old.Labels)
	}
}

// Only the name of the own member changes in the arguments of etcd.
func TestRenameArgument(t *testing.T) {
	r := Record{Original: "cp1", Other: "rack7", To: "rack7"}
	for text, want := range map[string]string{
		"--name=cp1":  "--name=rack7",
		"--name=cp10": "--name=cp10",
		"--initial-cluster=cp1=https://192.0.2.10:2380,cp10=https://192.0.2.11:2380": "--initial-cluster=rack7=https://192.0.2.10:2380,cp10=https://192.0.2.11:2380",
		"--data-dir=cp1": "--data-dir=cp1",
		"etcd":           "etcd",
	} {
		if got := r.renameArgument(text); got != want {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	if back := (Record{Original: "cp1", Other: "rack7", To: "cp1"}); back.renameArgument("--name=rack7") != "--name=cp1" {
		t.Error("the way back")
	}
}
