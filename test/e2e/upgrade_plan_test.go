//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/test/nodes"
)

// TestUpgradePlan plans the upgrade of a cluster of the previous minor with this kubeadm and with
// upstream's. All checks of ours pass, it creates no Job, and the JSON output is the same except
// for the description of the upgrade.
func TestUpgradePlan(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newOlderCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	older := olderVersion(t)
	useOlder(t, s.cp, s.worker)
	config := nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Version: older})
	initial, err := s.cp.Init(t.Context(), config, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	runCommand(t, s.worker, workerJoinCommand(kubeadm, s)...)
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}

	plan := []string{"upgrade", "plan", "v1.37.1"}
	result, err := s.cp.Run(t.Context(), append([]string{kubeadm}, plan...)...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(result.Stderr, "WARNING") ||
		!strings.Contains(result.Stdout, "\tkubeadm upgrade apply v1.37.1\n") {
		t.Errorf("want a plan without warnings of checks, got\n%s%s", result.Stderr, result.Stdout)
	}
	if jobs := kubectl(t, s.cp, "get", "jobs", "--all-namespaces", "--output=name"); jobs != "" {
		t.Errorf("the plan left %s", jobs)
	}

	plan = append(plan, "--output=json")
	got := planOf(t, runCommand(t, s.cp, append([]string{kubeadm}, plan...)...))
	want := planOf(t, runCommand(t, s.cp,
		append([]string{upstreamKubeadm}, append(plan, "--ignore-preflight-errors=all")...)...))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// Without internet it says what it could not look up.
	result, err = s.cp.Run(t.Context(), kubeadm, "upgrade", "plan")
	if err != nil || !strings.Contains(result.Stderr, "has a newer patch release; if you know of one") {
		t.Errorf("%v\n%s", err, result.Stderr)
	}

	// A stopped scheduler is detected without a Job.
	runCommand(t, s.cp, "mv", "/etc/kubernetes/manifests/kube-scheduler.yaml",
		"/root/kube-scheduler.yaml")
	checkFails(t, s.cp, []string{"StaticPodManifest", "kube-scheduler.yaml"},
		append([]string{kubeadm}, plan...)...)
	await(t, "an error about the missing leader", waitLimit, func() error {
		command := append([]string{kubeadm},
			append(plan, "--ignore-preflight-errors=StaticPodManifest")...)
		result, err := s.cp.Run(t.Context(), command...)
		if err == nil {
			return errors.New("it succeeds")
		}
		checkError(t, result, []string{"CreateJob", "kube-scheduler has"})
		return nil
	})
}

// planOf reads a plan and drops the descriptions.
func planOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var plan map[string]any
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	upgrades, _ := plan["availableUpgrades"].([]any)
	for _, u := range upgrades {
		delete(u.(map[string]any), "description")
	}
	if len(upgrades) != 1 {
		t.Errorf("want one upgrade, got\n%s", text)
	}
	return plan
}
