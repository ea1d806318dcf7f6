package nodename

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// NewNode is the Node that replaces another one: with its labels, taints and annotations, and cordoned. It is created before
// the kubelet registers, which may set few of them itself; no Pod is assigned to a Node without its taints. The labels except
// are left out: CSI drivers set them, with values of the new Node.
func (r Record) NewNode(old corev1.Node, except ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.To, Labels: maps.Clone(old.Labels),
		Annotations: map[string]string{node.RenamedFromAnnotation: old.Name}}}
	n.SetGroupVersionKind(state.NodeKind)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for _, key := range except {
		delete(n.Labels, key)
	}
	n.Labels[corev1.LabelHostname] = r.To
	for key, value := range old.Annotations {
		if !isOfController(key) {
			n.Annotations[key] = value
		}
	}
	for _, t := range old.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") && !strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") {
			t.TimeAdded = nil
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	}
	n.Spec.Unschedulable = true
	return n
}

// isOfController reports whether the kubelet, a controller or a Pod network writes an annotation of a Node: it describes the
// previous Node.
func isOfController(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	if domain == "kubeadm.kubernetes.io" || domain == "kubeadm.alpha.kubernetes.io" {
		return key == node.RenamedFromAnnotation
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "flannel.alpha.coreos.com", "projectcalico.org", "cilium.io",
		"kube-router.io", "ovn.org", "antrea.io", "weave.works", "multus-cni.io"}, func(of string) bool {
		return domain == of || strings.HasSuffix(domain, "."+of)
	})
}

// renameArgument renames the member in an argument of etcd.
func (r Record) renameArgument(text string) string {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return text
	}
	switch strings.TrimLeft(name, "-") {
	case "name":
		if value == r.From() {
			value = r.To
		}
	case "initial-cluster":
		parts := strings.Split(value, ",")
		for i, part := range parts {
			if url, isOwn := strings.CutPrefix(part, r.From()+"="); isOwn {
				parts[i] = r.To + "=" + url
			}
		}
		value = strings.Join(parts, ",")
	}
	return name + "=" + value
}
