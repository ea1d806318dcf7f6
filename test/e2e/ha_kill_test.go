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

// TestS165_KillAtEveryPhaseOfControlPlaneJoin kills one join at its first phase, the next one at its second and so on, and
// lets the last one end.
func TestS165_KillAtEveryPhaseOfControlPlaneJoin(t *testing.T) {
	s := high(t)
	phases, _ := phasesOf(s.entered[s.planes[1].Name()].Stdout)
	if len(phases) < 8 {
		t.Fatalf("join went through these phases only: %q", phases)
	}
	n := add(t, s.Cluster, "killed-plane")
	before := make(kept)
	for i, phase := range phases {
		result, killed := interrupted(t, n, unix.SIGKILL, inPhase(phase), planeCommand(ours, s, "-v=1")...)
		if wasOver(t, phases, i, killed, result) {
			break
		}
		after := filesOf(t, n)
		if changed := rewritten(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s wrote again what was there:%s", phase, lines("%s", changed))
		}
		before = after
		once(t, s, n)
		tokenAlone(t, n)
	}
	becomesPlane(t, s, n, before)
}

func TestS165_KillAtAnyChangeOfControlPlaneJoin(t *testing.T) {
	s := high(t)
	_, changes := phasesOf(s.entered[s.planes[1].Name()].Stdout)
	for _, k := range sample(t, changes, 1) {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			n := add(t, s.Cluster, fmt.Sprintf("killed-plane-%d", k))
			result, killed := interrupted(t, n, unix.SIGKILL, atChange(k), planeCommand(ours, s, "-v=1")...)
			// The join that was counted may have had one change more: etcd is started anew if it was not heard.
			if over := result.Code == 0 && k == changes-1; !killed && !over {
				t.Fatalf("join was not killed:\n%s%s", result.Stdout, result.Stderr)
			}
			once(t, s, n)
			becomesPlane(t, s, n, filesOf(t, n))
		})
	}
}

// once checks that a machine is a member of etcd at most once.
func once(t *testing.T, s *trio, n *nodes.Node) {
	t.Helper()
	count := 0
	for _, m := range membersOf(t, s.cp) {
		if m.Name == n.Name() || slices.Contains(m.PeerURLs, "https://"+n.Address()+":2380") {
			count++
		}
	}
	if count > 1 {
		t.Errorf("%s is a member of etcd %d times", n.Name(), count)
	}
}

// tokenAlone checks that the kubelet of a control plane is never given the administrator's key to introduce itself with, though the
// machine finds the cluster by his file from the moment that it has it.
func tokenAlone(t *testing.T, n *nodes.Node) {
	t.Helper()
	text, err := n.ReadFile("/etc/kubernetes/bootstrap-kubelet.conf")
	if err == nil && (!strings.Contains(string(text), "token: ") || strings.Contains(string(text), "client-key")) {
		t.Errorf("the kubelet is to introduce itself with\n%s", text)
	}
}

// becomesPlane gives the killed join's command again, checks that the control plane is like one that joined undisturbed,
// and lets it leave.
func becomesPlane(t *testing.T, s *trio, n *nodes.Node, before kept) {
	t.Helper()
	if _, err := n.Run(t.Context(), planeCommand(ours, s)...); err != nil {
		t.Fatalf("the same command again: %v", err)
	}
	after := filesOf(t, n)
	if changed := rewritten(before, after); len(changed) > 0 {
		t.Errorf("the second run wrote again what was there:%s", lines("%s", changed))
	}
	if got, undisturbed := after.names(), filesOf(t, s.planes[1]).names(); !slices.Equal(got, undisturbed) {
		t.Errorf("the files are%s\nbut those of an undisturbed join%s", lines("%s", got), lines("%s", undisturbed))
	}
	admit(t, s, n)
	if again := run(t, n, planeCommand(ours, s, "-v=1")...); strings.Contains(again, "] done: ") {
		t.Errorf("a control plane that has joined was joined again:\n%s", again)
	}
	dismiss(t, s, ours, n)
}
