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

// initCommand writes the configuration of the shared cluster to a node that has the name and the
// address of its control plane, and returns the command that created the shared cluster.
func initCommand(t *testing.T, n *nodes.Node) []string {
	t.Helper()
	if err := n.WriteFile("/root/kubeadm.yaml",
		[]byte(nodes.InitConfig(nodes.Config{Address: n.Address()})), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{kubeadm, "init", "--config", "/root/kubeadm.yaml", "--upload-certs", "-v=1"}
}

// withEvents is the command that prints events as they happen. The lines of phases that run side by
// side come in the order of the phases, some of them too late for a kill.
func withEvents(command []string) []string { return append(slices.Clone(command), "--events=json") }

// TestInitKilledInEveryPhase kills one init in its first phase, the next one in its second and so
// on, and lets the last one finish.
func TestInitKilledInEveryPhase(t *testing.T) {
	s := sharedCluster(t)
	phases, _ := phasesOf(s.initResult.Stdout)
	if len(phases) < 12 {
		t.Fatalf("init went through these phases only: %q", phases)
	}
	n := addNode(t, newCluster(t), "cp1")
	command := initCommand(t, n)
	before := make(fileSet)
	for i, phase := range phases {
		result, killed := runInterrupted(t, n, unix.SIGKILL, atPhase(phase), withEvents(command)...)
		if endedBeforeKill(t, phases, i, killed, result) {
			break
		}
		after := listFiles(t, n)
		if changed := changedFiles(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s rewrote existing files:%s", phase,
				indentLines(changed))
		}
		before = after
	}
	resumeInit(t, s, n, before)
}

// endedBeforeKill reports whether a run finished before it was killed in phase i. The kill follows
// the output with a delay, which may be too late for the last phases, but never for the first
// ones.
func endedBeforeKill(t *testing.T, phases []string, i int, killed bool, result nodes.Result) bool {
	t.Helper()
	switch over := result.Code == 0; {
	case over && i >= len(phases)/2:
		t.Logf("it finished before it could be killed in phase %s", phases[i])
		return true
	case over || !killed:
		t.Fatalf("it ended before it could be killed in phase %s:\n%s%s", phases[i], result.Stdout,
			result.Stderr)
	}
	return false
}

// TestInitKilledInOnePhase kills init once, so that a complete run follows each phase.
func TestInitKilledInOnePhase(t *testing.T) {
	inFullRun(t, "a minute") // by default TestInitKilledAtAnyChange is a sample
	s := sharedCluster(t)
	phases, _ := phasesOf(s.initResult.Stdout)
	for _, k := range pickSample(t, len(phases), 1) {
		t.Run(phases[k], func(t *testing.T) { killAndResumeInit(t, s, atPhase(phases[k])) })
	}
}

func TestInitKilledAtAnyChange(t *testing.T) {
	s := sharedCluster(t)
	_, changes := phasesOf(s.initResult.Stdout)
	for _, k := range pickSample(t, changes, 1) {
		t.Run(fmt.Sprint(k), func(t *testing.T) { killAndResumeInit(t, s, atChange(k)) })
	}
}

// TestInitKilledAtAnyMoment kills init regardless of its output, which follows its changes.
func TestInitKilledAtAnyMoment(t *testing.T) {
	inFullRun(t, "a minute") // by default TestInitKilledAtAnyChange is a sample
	s := sharedCluster(t)
	const parts = 20
	for _, k := range pickSample(t, parts, 1) {
		moment := s.initResult.Duration * time.Duration(k) / parts
		t.Run(moment.String(), func(t *testing.T) {
			n := addNode(t, newCluster(t), "cp1")
			p, err := n.Start(t.Context(), initCommand(t, n)...)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(moment)
			// The shared cluster's init, which gave the duration, may have been slower: then this
			// one has finished.
			if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			result, _ := p.Wait() // It was killed.
			t.Logf("killed after:%s", indentLines(lastLines(result.Stdout, 2)))
			resumeInit(t, s, n, listFiles(t, n))
		})
	}
}

// pickSample divides the numbers below n into equal parts and picks one at random of each; in a
// full run it picks all numbers.
func pickSample(t *testing.T, n, parts int) []int {
	t.Helper()
	var picked []int
	if suite.full {
		parts = n
	}
	for i := range parts {
		from, to := i*n/parts, (i+1)*n/parts
		picked = append(picked, from+rand.IntN(to-from))
	}
	t.Logf("of %d, these: %v", n, picked)
	return picked
}

func killAndResumeInit(t *testing.T, s *testCluster, stop func(string) bool) {
	n := addNode(t, newCluster(t), "cp1")
	result, killed := runInterrupted(t, n, unix.SIGKILL, stop, withEvents(initCommand(t, n))...)
	if !killed {
		t.Fatalf("init was not killed:\n%s%s", result.Stdout, result.Stderr)
	}
	t.Logf("killed after:%s", indentLines(lastLines(result.Stdout, 2)))
	resumeInit(t, s, n, listFiles(t, n))
}

func lastLines(text string, count int) []string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return all[max(0, len(all)-count):]
}

// resumeInit runs a killed init's command again, compares the cluster with s, and checks that no
// file that existed before was rewritten.
func resumeInit(t *testing.T, s *testCluster, n *nodes.Node, before fileSet) {
	t.Helper()
	result, err := n.Run(t.Context(), initCommand(t, n)...)
	if err != nil {
		t.Fatalf("running the same command again: %v", err)
	}
	after := listFiles(t, n)
	if changed := changedFiles(before, after); len(changed) > 0 {
		t.Errorf("the second run rewrote existing files:%s", indentLines(changed))
	}
	uninterrupted := listFiles(t, s.cp).list()
	if got := after.list(); !slices.Equal(got, uninterrupted) {
		t.Errorf("the files are%s\nbut those of an uninterrupted init%s", indentLines(got),
			indentLines(uninterrupted))
	}
	for name := range after {
		if isPlain := strings.Contains(name, "/manifests/") ||
			strings.HasPrefix(name, "/var/lib/kubelet/"); isPlain && !isSameFile(t, s.cp, n, name) {
			t.Errorf("%s differs from what an uninterrupted init writes", name)
		}
	}
	worker, _, err := nodes.JoinCommands(result.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	checkSingleToken(t, n, flagValue(t, worker, "--token"))
	checkUploadedCertificates(t, n, certificateKeyIn(t, result.Stdout))
	checkControlPlaneNode(t, n)
	awaitSameObjects(t, s.cp, n)
	if err := n.Cluster().PodNetwork(t.Context(), n); err != nil {
		t.Error(err)
	}
	if err := n.AwaitReady(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// checkSingleToken checks that the only tokens are the one that init printed and the owner of the
// uploaded certificates.
func checkSingleToken(t *testing.T, cp *nodes.Node, token string) {
	t.Helper()
	list := runCommand(t, cp, kubeadm, "token", "list")
	var printed, owners int
	for line := range strings.Lines(list) {
		switch {
		case strings.HasPrefix(line, token) && strings.Contains(line, "authentication,signing"):
			printed++
		case strings.Contains(line, "<none>") && strings.Contains(line, "kubeadm-certs"):
			owners++
		}
	}
	if printed != 1 || owners != 1 || strings.Count(list, "\n") != 2 {
		t.Errorf("init printed token %s; these exist:\n%s", token, list)
	}
}

// awaitSameObjects waits until two clusters have objects of the same names, tokens excepted.
func awaitSameObjects(t *testing.T, a, b *nodes.Node) {
	t.Helper()
	names := func(cp *nodes.Node) []string {
		const kinds = "configmaps,secrets,serviceaccounts,services,roles,rolebindings,deployments,daemonsets,clusterroles,clusterrolebindings"
		list := strings.Fields(kubectl(t, cp, "get", "--namespace=kube-system", "--output=name",
			kinds))
		list = append(list, strings.Fields(kubectl(t, cp, "get", "--namespace=kube-public",
			"--output=name", kinds))...)
		list = slices.DeleteFunc(list,
			func(name string) bool { return strings.HasPrefix(name, "secret/bootstrap-token-") })
		slices.Sort(list)
		return slices.Compact(list)
	}
	// The controller manager creates its ServiceAccounts during the first seconds.
	await(t, "the objects of an uninterrupted init", waitLimit, func() error {
		if want, got := names(a), names(b); !slices.Equal(got, want) {
			return fmt.Errorf("there are%s\nbut after an uninterrupted init%s", indentLines(got),
				indentLines(want))
		}
		return nil
	})
}

func TestWorkerJoinKilledInEveryPhase(t *testing.T) {
	s := sharedCluster(t)
	phases, _ := phasesOf(s.joinResult.Stdout)
	if len(phases) < 3 {
		t.Fatalf("join went through these phases only: %q", phases)
	}
	n := addNode(t, s.Cluster, "killed-phases")
	before := make(fileSet)
	for i, phase := range phases {
		result, killed := runInterrupted(t, n, unix.SIGKILL, atPhase(phase),
			append(workerJoinCommand(kubeadm, s), "-v=1")...)
		if endedBeforeKill(t, phases, i, killed, result) {
			break
		}
		after := listFiles(t, n)
		if changed := changedFiles(before, after); len(changed) > 0 {
			t.Errorf("the run that was killed in phase %s rewrote existing files:%s", phase,
				indentLines(changed))
		}
		before = after
	}
	resumeWorkerJoin(t, s, n, before)
}

func TestWorkerJoinKilledAtAnyChange(t *testing.T) {
	s := sharedCluster(t)
	_, changes := phasesOf(s.joinResult.Stdout)
	for _, k := range pickSample(t, changes, 2) {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			n := addNode(t, s.Cluster, fmt.Sprintf("killed-%d", k))
			result, killed := runInterrupted(t, n, unix.SIGKILL, atChange(k),
				append(workerJoinCommand(kubeadm, s), "-v=1")...)
			if !killed {
				t.Fatalf("join was not killed:\n%s%s", result.Stdout, result.Stderr)
			}
			resumeWorkerJoin(t, s, n, listFiles(t, n))
		})
	}
}

// resumeWorkerJoin runs a killed join's command again and compares the worker with one whose join
// was not interrupted.
func resumeWorkerJoin(t *testing.T, s *testCluster, n *nodes.Node, before fileSet) {
	t.Helper()
	t.Cleanup(func() { removeNode(t, s, n) })
	if _, err := n.Run(t.Context(), workerJoinCommand(kubeadm, s)...); err != nil {
		t.Fatalf("running the same command again: %v", err)
	}
	after := listFiles(t, n)
	if changed := changedFiles(before, after); len(changed) > 0 {
		t.Errorf("the second run rewrote existing files:%s", indentLines(changed))
	}
	if got, uninterrupted := after.list(),
		listFiles(t, s.worker).list(); !slices.Equal(got, uninterrupted) {
		t.Errorf("the files are%s\nbut those of an uninterrupted join%s", indentLines(got),
			indentLines(uninterrupted))
	}
	awaitJoined(t, s, n)
}

// TestInitResumesWithOtherArguments kills init repeatedly when its API server runs, each time in
// another phase, and resumes with other arguments of the API server. The kubelet replaces the
// running API server; the phases after the wait must use the new one.
func TestInitResumesWithOtherArguments(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	command := []string{kubeadm, "init", "--config", initConfigFile, "-v=1"}
	for verbosity, phase := range []string{"upload-config", "bootstrap-token", "addon",
		"upload-config", ""} {
		config := nodes.Config{Address: n.Address()}
		config.Cluster = fmt.Sprintf("apiServer:\n  extraArgs:\n  - {name: v, value: \"%d\"}",
			verbosity)
		writeFile(t, n, initConfigFile, nodes.InitConfig(config))
		if phase == "" {
			runCommand(t, n, command...)
			break
		}
		result, killed := runInterrupted(t, n, unix.SIGKILL, atPhase(phase), withEvents(command)...)
		if !killed {
			t.Fatalf("init did not get to phase %s:\n%s%s", phase, result.Stdout, result.Stderr)
		}
		t.Logf("killed after %s:%s", result.Duration, indentLines(lastLines(result.Stdout, 2)))
	}
	checkControlPlaneNode(t, n)
	if running := runShell(t, n, "pgrep -af kube-apiserver"); !strings.Contains(running, " --v=4") {
		t.Errorf("the running API server does not have the last arguments:\n%s", running)
	}
}
