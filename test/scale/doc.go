// Package scale measures what kubeadm's commands cost in clusters of 10 to 5,000 nodes: requests to the API
// server, bytes from it, peak memory and time. Its control plane is real; its Nodes and Pods are objects
// without machines. See README.md.
package scale
