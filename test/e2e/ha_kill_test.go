//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// TestControlPlaneJoinKilledInEveryPhase kills one join in its first phase, the next one in its
// second and so on, and lets the last one finish.
func TestControlPlaneJoinKilledInEveryPhase(t *testing.T) {
	inFullRun(t, "a minute") // by default TestControlPlaneJoinKilledAtAnyChange is a sample
	s := sharedHACluster(t)
	phases, _ := phasesOf(s.joinResults[s.controlPlanes[1].Name()].Stdout)
	if len(phases) < 8 {
		t.Fatalf("join went through these phases only: %q", phases)
	}
	n := addNode(t, s.Cluster, "killed-plane")
	before := make(fileSet)
	for i, phase := range phases {
		result, killed := runInterrupted(t, n, unix.SIGKILL, atPhase(phase),
			controlPlaneJoinCommand(kubeadm, s, "-v=1")...)
		if endedBeforeKill(t, phases, i, killed, result) {
			break
		}
		after := listFiles(t, n)
		if changed := changedFiles(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s rewrote existing files:%s", phase,
				indentLines(changed))
		}
		before = after
		checkSingleMember(t, s, n)
		checkBootstrapToken(t, n)
	}
	resumeControlPlaneJoin(t, s, n, before)
}

func TestControlPlaneJoinKilledAtAnyChange(t *testing.T) {
	s := sharedHACluster(t)
	_, changes := phasesOf(s.joinResults[s.controlPlanes[1].Name()].Stdout)
	for _, k := range pickSample(t, changes, 1) {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			n := addNode(t, s.Cluster, fmt.Sprintf("killed-plane-%d", k))
			result, killed := runInterrupted(t, n, unix.SIGKILL, atChange(k),
				controlPlaneJoinCommand(kubeadm, s, "-v=1")...)
			// The join that was counted may have made one change more: it restarts etcd if the
			// learner was not published.
			if over := result.Code == 0 && k == changes-1; !killed && !over {
				t.Fatalf("join was not killed:\n%s%s", result.Stdout, result.Stderr)
			}
			checkSingleMember(t, s, n)
			resumeControlPlaneJoin(t, s, n, listFiles(t, n))
		})
	}
}

// checkSingleMember checks that a machine has at most one etcd member.
func checkSingleMember(t *testing.T, s *haCluster, n *nodes.Node) {
	t.Helper()
	count := 0
	for _, m := range listMembers(t, s.cp) {
		if m.Name == n.Name() || slices.Contains(m.PeerURLs, "https://"+n.Address()+":2380") {
			count++
		}
	}
	if count > 1 {
		t.Errorf("%s has %d etcd members", n.Name(), count)
	}
}

// checkBootstrapToken checks that bootstrap-kubelet.conf of a control plane holds the token, never
// the client key of admin.conf.
func checkBootstrapToken(t *testing.T, n *nodes.Node) {
	t.Helper()
	text, err := n.ReadFile("/etc/kubernetes/bootstrap-kubelet.conf")
	if err == nil && (!strings.Contains(string(text), "token: ") ||
		strings.Contains(string(text), "client-key")) {
		t.Errorf("bootstrap-kubelet.conf is\n%s", text)
	}
}

// resumeControlPlaneJoin runs a killed join's command again, compares the control plane with one
// whose join was not interrupted, and resets it.
func resumeControlPlaneJoin(t *testing.T, s *haCluster, n *nodes.Node, before fileSet) {
	t.Helper()
	if _, err := n.Run(t.Context(), controlPlaneJoinCommand(kubeadm, s)...); err != nil {
		t.Fatalf("running the same command again: %v", err)
	}
	after := listFiles(t, n)
	if changed := changedFiles(before, after); len(changed) > 0 {
		t.Errorf("the second run rewrote existing files:%s", indentLines(changed))
	}
	if got, uninterrupted := after.list(),
		listFiles(t, s.controlPlanes[1]).list(); !slices.Equal(got, uninterrupted) {
		t.Errorf("the files are%s\nbut those of an uninterrupted join%s", indentLines(got),
			indentLines(uninterrupted))
	}
	addControlPlane(t, s, n)
	if again := runCommand(t, n,
		controlPlaneJoinCommand(kubeadm, s, "-v=1")...); strings.Contains(again, "] done: ") {
		t.Errorf("join made changes on a control plane that had joined:\n%s", again)
	}
	resetAndDestroy(t, s, kubeadm, n)
}
