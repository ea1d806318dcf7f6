package scale

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/rotation"
)

// simulated adapts Nodes without machines, and their objects, to a cluster with controllers, so that these leave them alone.
type simulated struct {
	nodes    int    // how many there are
	rotation string // the annotation of the Nodes for a rotation of CAs; empty: none
}

// Each Node has a part of the Pod CIDR, 10.244.0.0/16.
const (
	podCIDRBits = 29
	podCIDRs    = 1 << (podCIDRBits - 16)
)

// adapt changes an object of the node with a number.
func (s *simulated) adapt(i int, o runtime.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		s.adaptNode(i, o)
	case *corev1.Pod:
		// The garbage collector deletes what belongs to an object that does not exist.
		o.OwnerReferences = nil
		// A stage of a rotation waits for Pods that were started before the previous stage.
		started := metav1.NewTime(time.Now().Add(24 * time.Hour))
		o.Status.StartTime = &started
	case *coordinationv1.Lease:
		// Commands wait for kubelets that do not renew it.
		o.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(24 * time.Hour)}
	}
}

func (s *simulated) adaptNode(i int, n *corev1.Node) {
	// The DaemonSet of kube-proxy selects Nodes of Linux.
	n.Labels[corev1.LabelOSStable] = "none"
	// These two are added by the node lifecycle controller, and the annotation is written by the TTL controller.
	n.Labels["beta.kubernetes.io/os"], n.Labels["beta.kubernetes.io/arch"] = "none", "amd64"
	n.Annotations["node.alpha.kubernetes.io/ttl"] = fmt.Sprint(nodeTTL(s.nodes))
	if s.rotation != "" {
		n.Annotations[rotation.NodeAnnotation] = s.rotation
	}
	n.Spec.Taints = []corev1.Taint{{Key: "no-machine", Effect: corev1.TaintEffectNoSchedule}}
	n.Spec.PodCIDR = podCIDR(i)
	n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
}

// podCIDR is the Pod CIDR of the node with a number. kube-controller-manager assigns the first ones to nodes that join.
func podCIDR(i int) string {
	offset := (podCIDRs - 1 - i) << (32 - podCIDRBits)
	return fmt.Sprintf("10.244.%d.%d/%d", offset>>8, offset&0xff, podCIDRBits)
}

// nodeTTL is for how many seconds kubelets may cache objects in a cluster of some size; the TTL controller of
// kube-controller-manager decides so.
func nodeTTL(nodes int) int {
	for _, step := range []struct{ nodes, seconds int }{{100, 0}, {500, 15}, {1000, 30}, {2000, 60}} {
		if nodes <= step.nodes {
			return step.seconds
		}
	}
	return 300
}

// readByteCounter returns the bytes of the only counter in the listing of a chain by nft(8).
func readByteCounter(listing string) (bytes int64, err error) {
	_, text, found := strings.Cut(listing, "counter packets")
	if _, text, _ = strings.Cut(text, " bytes "); !found {
		return 0, fmt.Errorf("no counter in %q", listing)
	}
	_, err = fmt.Sscan(text, &bytes)
	return bytes, err
}

func TestByteCounter(t *testing.T) {
	n, err := readByteCounter("\tchain input {\n\t\tct mark 0x0000002a ct direction reply counter packets 12 bytes 3456\n\t}\n")
	if n != 3456 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := readByteCounter("chain input { }"); err == nil {
		t.Error("a chain without a counter has bytes")
	}
}

func TestSimulatedObjects(t *testing.T) {
	m := &simulated{nodes: 5000, rotation: `{"stage":"trust"}`}
	seen := map[string]bool{}
	for i := range m.nodes {
		cidr := podCIDR(i)
		if seen[cidr] {
			t.Fatalf("%s is the Pod CIDR of two Nodes", cidr)
		}
		seen[cidr] = true
	}
	if podCIDR(0) != "10.244.255.248/29" || podCIDR(4999) != "10.244.99.192/29" {
		t.Errorf("the Pod CIDRs are from %s to %s", podCIDR(0), podCIDR(4999))
	}
	n, p, l := newNode(7, clusterVersion), newPod("worker-0007", 70), newLease("worker-0007")
	for _, o := range []runtime.Object{n, p, l} {
		m.adapt(7, o)
	}
	if n.Annotations[rotation.NodeAnnotation] != m.rotation || n.Labels[corev1.LabelOSStable] == "linux" ||
		n.Annotations["node.alpha.kubernetes.io/ttl"] != "300" || n.Spec.PodCIDRs[0] != podCIDR(7) {
		t.Errorf("the Node has %v, %v and %v", n.Annotations, n.Labels, n.Spec)
	}
	if len(p.OwnerReferences) > 0 || !p.Status.StartTime.After(time.Now()) {
		t.Errorf("the Pod belongs to %v and was started at %s", p.OwnerReferences, p.Status.StartTime)
	}
	if time.Until(l.Spec.RenewTime.Time) < 23*time.Hour {
		t.Errorf("the Lease was renewed at %s", l.Spec.RenewTime)
	}
}
