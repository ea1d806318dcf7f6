// Package release holds what depends on versions: which Kubernetes releases this program supports,
// their images, flags and feature gates, and which kubelets work with them. The version skew of an
// upgrade is in package upgrade. This package does not use the network: the caller passes a
// function that fetches.
package release
