// Package e2e proves on sandboxed nodes, with real Kubernetes, what kubeadm promises. Its tests carry the tag e2e and the
// number of their scenario in SCENARIOS.md; "make e2e" runs them, "make e2e-full" also the long matrices.
//
// A test on a cluster of its own, or one that leaves the shared one as it is and mostly waits, begins with t.Parallel: when the
// others are done, these run two at a time. Those of three control planes leave a machine no room for a second.
package e2e
