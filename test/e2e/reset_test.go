//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// allowedRemains may be on a machine after a reset, each for its reason; whatever else differs from the machine before init or
// join is a fault.
var allowedRemains = []struct{ line, reason string }{
	{`^\+ files: /(root/kubeadm\.yaml|root/\.kube(/.*)?) `, "the test's own"},
	{`^\+ files: /etc/cni(/net\.d(/.*)?)? `, "the pod network's configuration, of which kubeadm knows nothing"},
	{`^\+ files: /var/lib/cni(/.*)? `, "the pod network's notes on addresses in use"},
	{`^\+ routes: 10\.244\.`, "the pod network's"},
	{`^\+ rules: `, "kube-proxy's and the pod network's packet filter rules, which may be mixed with the user's"},
	{`^\+ links: (kube-ipvs0|nodelocaldns)`, "kube-proxy's"},
	{`^\+ files: /etc/kubernetes(/manifests|/pki)? d`, "directories stay, only what is in them goes"},
	{`^\+ files: /var/lib/(kubelet|etcd) d`, "likewise"},
	{`^\+ files: /usr/libexec/kubernetes(/.*)? d`, "made by the kubelet for volume plugins"},
	{`^\+ files: /usr/lib/modules d`, "made by the container runtime, as kube-proxy wants it mounted"},
	{`^[+-] units: kubelet\.service`, "stopped; whether it starts at boot is left as it was"},
}

// awaitRestored compares a machine with what it was before; files whose names begin with one of those that stay are left out. The kernel and
// the container runtime may be a moment behind with what they take away of containers that are gone.
func awaitRestored(t *testing.T, n *nodes.Node, before nodes.Fingerprint, stays ...string) {
	t.Helper()
	await(t, n.Name()+" to be after reset what it was", waitLimit, func() error {
		left := slices.DeleteFunc(before.Diff(takeFingerprint(t, n)), func(line string) bool { return mayRemain(line, stays) })
		if len(left) > 0 {
			return fmt.Errorf("it differs:%s", indentLines(left))
		}
		return nil
	})
}

func mayRemain(line string, stays []string) bool {
	for _, legacy := range allowedRemains {
		if regexp.MustCompile(legacy.line).MatchString(line) {
			return true
		}
	}
	return slices.ContainsFunc(stays, func(name string) bool { return strings.HasPrefix(line, "+ files: "+name) })
}

// TestResetRestoresMachine takes a cluster apart again and, in a full run, makes it anew from the same machines.
func TestResetRestoresMachine(t *testing.T) {
	t.Parallel()
	s := &testCluster{Cluster: newCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	cp, worker := takeFingerprint(t, s.cp), takeFingerprint(t, s.worker)
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*nodes.Node{s.worker, s.cp} {
		runCommand(t, n, kubeadm, "reset", "--force")
	}
	awaitRestored(t, s.worker, worker)
	awaitRestored(t, s.cp, cp)
	if !suite.full {
		return // TestJoinUpstreamCluster uses machines again, too.
	}
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Errorf("the same machines cannot be used again: %v", err)
	}
}

func TestResetDryRunOnCleanMachine(t *testing.T) {
	t.Parallel()
	n := addNode(t, newCluster(t), "blank")
	runUnchanged(t, n, nil, kubeadm, "reset", "--force", "--dry-run")
}

func TestResetOnCleanMachine(t *testing.T) {
	t.Parallel()
	n := addNode(t, newCluster(t), "blank")
	before := takeFingerprint(t, n)
	runCommand(t, n, kubeadm, "reset", "--force")
	awaitRestored(t, n, before)
}
