// Package scale measures what kubeadm's commands cost in clusters of 10 to 5,000 nodes: requests to the API
// server, bytes from it, peak memory and time. Their control planes are real; their Nodes and Pods are objects
// without machines, but for the sandboxed nodes of commands that need one. See README.md.
package scale
