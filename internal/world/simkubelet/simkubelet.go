// Package simkubelet simulates what a started kubelet does by itself, for dry runs and for the
// world of tests.
package simkubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Kubelet says where a kubelet has its files.
type Kubelet struct {
	Node            string // name of its Node object
	BootstrapConfig string // the bootstrap kubeconfig, which it exchanges for Kubeconfig
	Kubeconfig      string
	RotatedCert     string // the file of its client certificate
}

// Files are those that the kubelet writes once an API server has signed its client certificate:
// the certificate, and a kubeconfig in exchange for the bootstrap kubeconfig. What exists stays. A
// kubelet without credentials writes nothing.
func (k Kubelet) Files(ctx context.Context, r state.Reader) (files []change.WriteFile) {
	_, unregistered := r.Stat(ctx, k.Kubeconfig)
	bootstrap, err := r.ReadFile(ctx, k.BootstrapConfig)
	switch {
	case err == nil && unregistered != nil:
		files = append(files,
			change.WriteFile{Path: k.Kubeconfig, Data: bootstrap, Mode: 0o600, Secret: true})
	case unregistered != nil:
		return nil
	}
	if _, err := r.Stat(ctx, k.RotatedCert); err != nil {
		files = append(files,
			change.WriteFile{Path: k.RotatedCert, Data: []byte("pem"), Mode: 0o600, Secret: true})
	}
	return files
}

// NodeObject is the Node that the kubelet registers.
func (k Kubelet) NodeObject() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Node,
		Labels: map[string]string{corev1.LabelHostname: k.Node}}}
	node.SetGroupVersionKind(state.NodeKind)
	return node
}
