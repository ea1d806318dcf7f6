// Package e2e tests kubeadm with real Kubernetes on sandboxed nodes. Its tests have the build tag
// e2e; SCENARIOS.md lists them by scenario. "make e2e" runs them, "make e2e-full" also the long
// matrices.
//
// A test calls t.Parallel first if it uses a cluster of its own, or does not change the shared one
// and mostly waits: these run two at a time, after the others. Tests with three control planes do
// not, since they keep the machine busy.
package e2e
