//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// allowedRemains are the differences that a machine may have after a reset, each with its reason;
// any other difference from the machine before init or join is a fault.
var allowedRemains = []struct{ line, reason string }{
	{`^\+ files: /(root/kubeadm\.yaml|root/\.kube(/.*)?) `, "the test's own"},
	{`^\+ files: /etc/cni(/net\.d(/.*)?)? `,
		"the pod network's configuration, which kubeadm does not manage"},
	{`^\+ files: /var/lib/cni(/.*)? `, "the pod network's record of addresses in use"},
	{`^\+ routes: 10\.244\.`, "the pod network's"},
	{`^\+ rules: `, "kube-proxy's and the pod network's packet filter rules, which may be mixed with the user's"},
	{`^\+ links: (kube-ipvs0|nodelocaldns)`, "kube-proxy's"},
	{`^\+ files: /etc/kubernetes(/manifests|/pki)? d`,
		"directories stay, their contents are removed"},
	{`^\+ files: /var/lib/(kubelet|etcd) d`, "the same"},
	{`^\+ files: /usr/libexec/kubernetes(/.*)? d`, "created by the kubelet for volume plugins"},
	{`^\+ files: /usr/lib/modules d`,
		"created by the container runtime, since kube-proxy mounts it"},
	{`^[+-] units: kubelet\.service`, "stopped; whether it starts at boot is unchanged"},
}

// awaitRestored waits until a machine has the fingerprint of before, except for allowedRemains and
// files whose names begin with one of stays. The kernel and the container runtime remove what
// belonged to containers with a delay.
func awaitRestored(t *testing.T, n *nodes.Node, before nodes.Fingerprint, stays ...string) {
	t.Helper()
	await(t, n.Name()+" to be restored", waitLimit, func() error {
		left := slices.DeleteFunc(before.Diff(takeFingerprint(t, n)),
			func(line string) bool { return mayRemain(line, stays) })
		if len(left) > 0 {
			return fmt.Errorf("it differs:%s", indentLines(left))
		}
		return nil
	})
}

// mayRemain reports whether a line of a fingerprint's difference is allowed after reset.
func mayRemain(line string, stays []string) bool {
	for _, remains := range allowedRemains {
		if regexp.MustCompile(remains.line).MatchString(line) {
			return true
		}
	}
	return slices.ContainsFunc(stays,
		func(name string) bool { return strings.HasPrefix(line, "+ files: "+name) })
}

// TestResetRestoresMachine resets the machines of a cluster and, in a full run, re-creates the
// cluster on them.
func TestResetRestoresMachine(t *testing.T) {
	parallel(t)
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
		return // TestJoinUpstreamCluster also uses machines again.
	}
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Errorf("the same machines cannot be used again: %v", err)
	}
}

func TestResetDryRunOnCleanMachine(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "blank")
	runUnchanged(t, n, nil, kubeadm, "reset", "--force", "--dry-run")
}

func TestResetOnCleanMachine(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "blank")
	before := takeFingerprint(t, n)
	runCommand(t, n, kubeadm, "reset", "--force")
	awaitRestored(t, n, before)
}

// TestResetWithKubeletRootElsewhere resets a machine whose kubelet keeps its volumes in another directory.
func TestResetWithKubeletRootElsewhere(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	before := takeFingerprint(t, n)
	const dir = "/srv/kubelet"
	config := nodes.InitConfig(nodes.Config{Address: n.Address(),
		Registration: "  kubeletExtraArgs: [{name: root-dir, value: " + dir + "}]"})
	if _, err := n.Init(t.Context(), config, io.Discard); err != nil {
		t.Fatal(err)
	}
	runShell(t, n, "ls -d "+dir+"/pods/* && mkdir -p "+dir+"/pods/mounted && mount -t tmpfs tmpfs "+dir+"/pods/mounted")
	runCommand(t, n, kubeadm, "reset", "--force")
	if left := runShell(t, n, "grep "+dir+" /proc/mounts || true; find "+dir+" 2>/dev/null || true"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	awaitRestored(t, n, before)
}
