// Package parity gives the same input to our kubeadm and to upstream's, the peer, each on a machine of its
// own made of namespaces, and compares what they make of it by meaning. README.md says how to add
// a case and how to read a difference.
package parity
