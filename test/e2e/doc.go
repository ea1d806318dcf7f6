// Package e2e tests kubeadm with real Kubernetes on sandboxed nodes. Its tests have the build tag
// e2e; SCENARIOS.md lists them by scenario. "make e2e" runs them, "make e2e-full" also the long
// matrices.
//
// A test begins with a call that says what it runs beside: parallel, if it uses clusters of its own;
// sharedCluster or sharedHACluster, if it uses the one of that name, where it waits for its turn. One
// that calls none of them runs alone, before the others: it keeps the machine busy, or measures.
package e2e
