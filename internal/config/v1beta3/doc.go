// Package v1beta3 holds the configuration API kubeadm.k8s.io/v1beta3, which upstream's kubeadm
// supported up to 1.36: its types, and their conversion to v1beta4. It is never written. Types
// that are the same in v1beta4 are used from there.
package v1beta3

// The API version of every kind in this package.
const (
	Version    = "v1beta3"
	APIVersion = "kubeadm.k8s.io/" + Version
)
