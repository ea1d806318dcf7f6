// Package manifest builds the static Pods, the kubelet's files and the API objects of a cluster.
// It is pure: a node.Node goes in, bytes or typed objects come out.
package manifest
