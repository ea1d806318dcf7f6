// Package parity runs our kubeadm and upstream's with the same input, each on a machine of its own
// made of namespaces, and compares the results by meaning. README.md says how to add a case and
// how to read a difference. "peer" is upstream's kubeadm.
package parity
