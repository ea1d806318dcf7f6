// Package manifest builds what a cluster is made of: static Pods, the files of
// the kubelet and the objects in the API server. It is pure: intent in, bytes
// or typed objects out.
package manifest
