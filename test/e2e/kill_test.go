//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// initCommand puts the configuration of the shared cluster on a node that has the name and the address of its control
// plane, and returns the command that made it.
func initCommand(t *testing.T, n *nodes.Node) []string {
	t.Helper()
	if err := n.WriteFile("/root/kubeadm.yaml", []byte(nodes.InitConfig(nodes.Config{Address: n.Address()})), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{ours, "init", "--config", "/root/kubeadm.yaml", "--upload-certs", "-v=1"}
}

// TestS164_KillAtEveryPhaseOfInit kills one init at its first phase, the next one at its second and so on, and lets the
// last one end.
func TestS164_KillAtEveryPhaseOfInit(t *testing.T) {
	t.Parallel()
	s := home(t)
	phases, _ := phasesOf(s.initial.Stdout)
	if len(phases) < 12 {
		t.Fatalf("init went through these phases only: %q", phases)
	}
	n := add(t, newCluster(t), "cp1")
	command := initCommand(t, n)
	before := make(kept)
	for i, phase := range phases {
		result, killed := interrupted(t, n, unix.SIGKILL, inPhase(phase), command...)
		if wasOver(t, phases, i, killed, result) {
			break
		}
		after := filesOf(t, n)
		if changed := rewritten(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s wrote again what was there:%s", phase, lines("%s", changed))
		}
		before = after
	}
	goesOn(t, s, n, before)
}

// wasOver tells whether a run had done everything before it was killed in phase i. A kill comes a moment after the run's word, which
// is too late for the last phases if that moment is a long one; never for the first ones.
func wasOver(t *testing.T, phases []string, i int, killed bool, result nodes.Result) bool {
	t.Helper()
	switch over := result.Code == 0; {
	case over && i >= len(phases)/2:
		t.Logf("it was over before it could be killed in phase %s", phases[i])
		return true
	case over || !killed:
		t.Fatalf("it ended before it could be killed in phase %s:\n%s%s", phases[i], result.Stdout, result.Stderr)
	}
	return false
}

// TestS164_KillAtOnePhaseOfInit kills only once, so that each phase is followed by a whole run.
func TestS164_KillAtOnePhaseOfInit(t *testing.T) {
	t.Parallel()
	s := home(t)
	phases, _ := phasesOf(s.initial.Stdout)
	for _, k := range sample(t, len(phases), 2) {
		t.Run(phases[k], func(t *testing.T) { killInit(t, s, inPhase(phases[k])) })
	}
}

func TestS164_KillAtAnyChangeOfInit(t *testing.T) {
	t.Parallel()
	s := home(t)
	_, changes := phasesOf(s.initial.Stdout)
	for _, k := range sample(t, changes, 4) {
		t.Run(fmt.Sprint(k), func(t *testing.T) { killInit(t, s, atChange(k)) })
	}
}

// TestS164_KillAtAnyMomentOfInit kills without regard to what init says, which it does a little after the fact.
func TestS164_KillAtAnyMomentOfInit(t *testing.T) {
	t.Parallel()
	s := home(t)
	const parts = 20
	for _, k := range sample(t, parts, 2) {
		moment := s.initial.Duration * time.Duration(k) / parts
		t.Run(moment.String(), func(t *testing.T) {
			n := add(t, newCluster(t), "cp1")
			p, err := n.Start(t.Context(), initCommand(t, n)...)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(moment)
			// The shared cluster's init, which gave the measure, may have been a slow one: then this one is over.
			if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			result, _ := p.Wait() // It was killed.
			t.Logf("killed after:%s", lines("%s", tail(result.Stdout, 2)))
			goesOn(t, s, n, filesOf(t, n))
		})
	}
}

// sample picks some of the numbers below n, one at random of each of as many equal parts; all of them in a full run.
func sample(t *testing.T, n, parts int) []int {
	t.Helper()
	var picked []int
	if lab.full {
		parts = n
	}
	for i := range parts {
		from, to := i*n/parts, (i+1)*n/parts
		picked = append(picked, from+rand.IntN(to-from))
	}
	t.Logf("of %d, these: %v", n, picked)
	return picked
}

func killInit(t *testing.T, s *site, stop func(string) bool) {
	n := add(t, newCluster(t), "cp1")
	result, killed := interrupted(t, n, unix.SIGKILL, stop, initCommand(t, n)...)
	if !killed {
		t.Fatalf("init was not killed:\n%s%s", result.Stdout, result.Stderr)
	}
	t.Logf("killed after:%s", lines("%s", tail(result.Stdout, 2)))
	goesOn(t, s, n, filesOf(t, n))
}

func tail(text string, count int) []string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return all[max(0, len(all)-count):]
}

// goesOn gives the killed init's command again and checks that it ends in a cluster like the one that s is, and that it
// touched none of the files that were there before.
func goesOn(t *testing.T, s *site, n *nodes.Node, before kept) {
	t.Helper()
	result, err := n.Run(t.Context(), initCommand(t, n)...)
	if err != nil {
		t.Fatalf("the same command again: %v", err)
	}
	after := filesOf(t, n)
	if changed := rewritten(before, after); len(changed) > 0 {
		t.Errorf("the second run wrote again what was there:%s", lines("%s", changed))
	}
	undisturbed := filesOf(t, s.cp).names()
	if got := after.names(); !slices.Equal(got, undisturbed) {
		t.Errorf("the files are%s\nbut those of an undisturbed init%s", lines("%s", got), lines("%s", undisturbed))
	}
	for name := range after {
		if isPlain := strings.Contains(name, "/manifests/") || strings.HasPrefix(name, "/var/lib/kubelet/"); isPlain && !same(t, s.cp, n, name) {
			t.Errorf("%s is not what an undisturbed init writes", name)
		}
	}
	worker, _, err := nodes.JoinCommands(result.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	oneToken(t, n, flagOf(t, worker, "--token"))
	lent(t, n, keyOf(t, result.Stdout))
	marked(t, n)
	sameObjects(t, s.cp, n)
	if err := n.Cluster().PodNetwork(t.Context(), n); err != nil {
		t.Error(err)
	}
	if err := n.AwaitReady(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// oneToken checks that there is the token that init printed, the one that the lent certificates go with, and no other.
func oneToken(t *testing.T, cp *nodes.Node, token string) {
	t.Helper()
	list := run(t, cp, ours, "token", "list")
	var useful, useless int
	for line := range strings.Lines(list) {
		switch {
		case strings.HasPrefix(line, token) && strings.Contains(line, "authentication,signing"):
			useful++
		case strings.Contains(line, "<none>") && strings.Contains(line, "kubeadm-certs"):
			useless++
		}
	}
	if useful != 1 || useless != 1 || strings.Count(list, "\n") != 2 {
		t.Errorf("init printed token %s; these exist:\n%s", token, list)
	}
}

// sameObjects checks that two control planes hold objects of the same names, tokens aside.
func sameObjects(t *testing.T, a, b *nodes.Node) {
	t.Helper()
	names := func(cp *nodes.Node) []string {
		const kinds = "configmaps,secrets,serviceaccounts,services,roles,rolebindings,deployments,daemonsets,clusterroles,clusterrolebindings"
		list := strings.Fields(kubectl(t, cp, "get", "--namespace=kube-system", "--output=name", kinds))
		list = append(list, strings.Fields(kubectl(t, cp, "get", "--namespace=kube-public", "--output=name", kinds))...)
		list = slices.DeleteFunc(list, func(name string) bool { return strings.HasPrefix(name, "secret/bootstrap-token-") })
		slices.Sort(list)
		return slices.Compact(list)
	}
	// Kubernetes' own service accounts come one after the other in the first seconds.
	await(t, "the objects of an undisturbed init", patience, func() error {
		if want, got := names(a), names(b); !slices.Equal(got, want) {
			return fmt.Errorf("there are%s\nbut after an undisturbed init%s", lines("%s", got), lines("%s", want))
		}
		return nil
	})
}

func TestS165_KillAtEveryPhaseOfWorkerJoin(t *testing.T) {
	s := home(t)
	phases, _ := phasesOf(s.joined.Stdout)
	if len(phases) < 3 {
		t.Fatalf("join went through these phases only: %q", phases)
	}
	n := add(t, s.Cluster, "killed-phases")
	before := make(kept)
	for i, phase := range phases {
		result, killed := interrupted(t, n, unix.SIGKILL, inPhase(phase), append(joinCommand(ours, s), "-v=1")...)
		if wasOver(t, phases, i, killed, result) {
			break
		}
		after := filesOf(t, n)
		if changed := rewritten(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s wrote again what was there:%s", phase, lines("%s", changed))
		}
		before = after
	}
	joins(t, s, n, before)
}

func TestS165_KillAtAnyChangeOfWorkerJoin(t *testing.T) {
	s := home(t)
	_, changes := phasesOf(s.joined.Stdout)
	for _, k := range sample(t, changes, 3) {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			n := add(t, s.Cluster, fmt.Sprintf("killed-%d", k))
			result, killed := interrupted(t, n, unix.SIGKILL, atChange(k), append(joinCommand(ours, s), "-v=1")...)
			if !killed {
				t.Fatalf("join was not killed:\n%s%s", result.Stdout, result.Stderr)
			}
			joins(t, s, n, filesOf(t, n))
		})
	}
}

// joins gives the killed join's command again and checks that the worker is like one that joined undisturbed.
func joins(t *testing.T, s *site, n *nodes.Node, before kept) {
	t.Helper()
	t.Cleanup(func() { expel(t, s, n) })
	if _, err := n.Run(t.Context(), joinCommand(ours, s)...); err != nil {
		t.Fatalf("the same command again: %v", err)
	}
	after := filesOf(t, n)
	if changed := rewritten(before, after); len(changed) > 0 {
		t.Errorf("the second run wrote again what was there:%s", lines("%s", changed))
	}
	if got, undisturbed := after.names(), filesOf(t, s.worker).names(); !slices.Equal(got, undisturbed) {
		t.Errorf("the files are%s\nbut those of an undisturbed join%s", lines("%s", got), lines("%s", undisturbed))
	}
	awaitMember(t, s, n)
}
