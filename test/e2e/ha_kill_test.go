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

// TestControlPlaneJoinKilledInEveryPhase kills one join at its first phase, the next one at its second and so on, and
// lets the last one end.
func TestControlPlaneJoinKilledInEveryPhase(t *testing.T) {
	s := sharedHACluster(t)
	phases, _ := phasesOf(s.joinResults[s.controlPlanes[1].Name()].Stdout)
	if len(phases) < 8 {
		t.Fatalf("join went through these phases only: %q", phases)
	}
	n := addNode(t, s.Cluster, "killed-plane")
	before := make(fileSet)
	for i, phase := range phases {
		result, killed := runInterrupted(t, n, unix.SIGKILL, atPhase(phase), controlPlaneJoinCommand(kubeadm, s, "-v=1")...)
		if endedBeforeKill(t, phases, i, killed, result) {
			break
		}
		after := listFiles(t, n)
		if changed := changedFiles(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s wrote again what was there:%s", phase, indentLines(changed))
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
			result, killed := runInterrupted(t, n, unix.SIGKILL, atChange(k), controlPlaneJoinCommand(kubeadm, s, "-v=1")...)
			// The join that was counted may have had one change more: etcd is started anew if it was not heard.
			if over := result.Code == 0 && k == changes-1; !killed && !over {
				t.Fatalf("join was not killed:\n%s%s", result.Stdout, result.Stderr)
			}
			checkSingleMember(t, s, n)
			resumeControlPlaneJoin(t, s, n, listFiles(t, n))
		})
	}
}

// checkSingleMember checks that a machine is a member of etcd at most once.
func checkSingleMember(t *testing.T, s *haCluster, n *nodes.Node) {
	t.Helper()
	count := 0
	for _, m := range listMembers(t, s.cp) {
		if m.Name == n.Name() || slices.Contains(m.PeerURLs, "https://"+n.Address()+":2380") {
			count++
		}
	}
	if count > 1 {
		t.Errorf("%s is a member of etcd %d times", n.Name(), count)
	}
}

// checkBootstrapToken checks that the kubelet of a control plane is never given the administrator's key to introduce itself with, though the
// machine finds the cluster by his file from the moment that it has it.
func checkBootstrapToken(t *testing.T, n *nodes.Node) {
	t.Helper()
	text, err := n.ReadFile("/etc/kubernetes/bootstrap-kubelet.conf")
	if err == nil && (!strings.Contains(string(text), "token: ") || strings.Contains(string(text), "client-key")) {
		t.Errorf("the kubelet is to introduce itself with\n%s", text)
	}
}

// resumeControlPlaneJoin gives the killed join's command again, checks that the control plane is like one that joined undisturbed,
// and lets it leave.
func resumeControlPlaneJoin(t *testing.T, s *haCluster, n *nodes.Node, before fileSet) {
	t.Helper()
	if _, err := n.Run(t.Context(), controlPlaneJoinCommand(kubeadm, s)...); err != nil {
		t.Fatalf("the same command again: %v", err)
	}
	after := listFiles(t, n)
	if changed := changedFiles(before, after); len(changed) > 0 {
		t.Errorf("the second run wrote again what was there:%s", indentLines(changed))
	}
	if got, undisturbed := after.list(), listFiles(t, s.controlPlanes[1]).list(); !slices.Equal(got, undisturbed) {
		t.Errorf("the files are%s\nbut those of an undisturbed join%s", indentLines(got), indentLines(undisturbed))
	}
	addControlPlane(t, s, n)
	if again := run(t, n, controlPlaneJoinCommand(kubeadm, s, "-v=1")...); strings.Contains(again, "] done: ") {
		t.Errorf("a control plane that has joined was joined again:\n%s", again)
	}
	resetAndDestroy(t, s, kubeadm, n)
}
