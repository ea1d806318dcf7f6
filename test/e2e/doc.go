// Package e2e proves on sandboxed nodes, with real Kubernetes, what kubeadm promises. Its tests carry the tag e2e and the
// number of their scenario in SCENARIOS.md; "make e2e" runs them, "make e2e-full" also the long matrices.
package e2e
