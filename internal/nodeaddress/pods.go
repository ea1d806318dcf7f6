package nodeaddress

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/state"
)

// HostPod is a Pod of this node that uses the network of the host.
type HostPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Address   string `json:"address"`
	// IsStatic is set if the kubelet runs it from a manifest.
	IsStatic bool `json:"static,omitempty"`
}

// ListHostPods lists the Pods of a node that use the network of the host, and report an address that the node does
// not have: a Pod keeps the address that it was created with.
func ListHostPods(ctx context.Context, r state.Reader, as state.Identity, n corev1.Node) (all []HostPod, err error) {
	var addresses []string
	for _, a := range n.Status.Addresses {
		addresses = append(addresses, a.Address)
	}
	list, err := r.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: as,
		FieldSelector: "spec.nodeName=" + n.Name, Fields: []string{"metadata", "spec.hostNetwork", "status.podIP", "status.phase"}})
	if err != nil {
		return nil, fmt.Errorf("looking for Pods that use the network of the host: %w", err)
	}
	for _, u := range list {
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod) != nil || !pod.Spec.HostNetwork ||
			pod.Status.PodIP == "" || slices.Contains(addresses, pod.Status.PodIP) ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		owner := metav1.GetControllerOf(&pod)
		all = append(all, HostPod{Namespace: pod.Namespace, Name: pod.Name, Address: pod.Status.PodIP,
			IsStatic: owner != nil && owner.Kind == "Node"})
	}
	slices.SortFunc(all, func(a, b HostPod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all, nil
}
