// Package v1beta3 holds the configuration API kubeadm.k8s.io/v1beta3, which kubeadm of
// Kubernetes up to 1.36 read: its types, and their conversion to v1beta4. Nothing is
// written in it. What is as in v1beta4 stands there only.
package v1beta3

// The API version of every kind in this package.
const (
	Version    = "v1beta3"
	APIVersion = "kubeadm.k8s.io/" + Version
)
