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

// TestUpgradePlan plans the upgrade of a cluster of the minor before with this kubeadm and
// upstream's. All checks of ours pass, it leaves no Job behind, and the objects are the same but
// for the description of the upgrade.
func TestUpgradePlan(t *testing.T) {
	t.Parallel()
	s := &site{Cluster: olderCluster(t)}
	if err := s.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	older := olderVersion(t)
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		if err := n.UseOlder(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	config := nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Version: older})
	initial, err := s.cp.Init(t.Context(), config, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.command, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	run(t, s.worker, joinCommand(ours, s)...)
	if err := settle(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}

	plan := []string{"upgrade", "plan", "v1.37.1"}
	result, err := s.cp.Run(t.Context(), append([]string{ours}, plan...)...)
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
	got := planOf(t, run(t, s.cp, append([]string{ours}, plan...)...))
	want := planOf(t, run(t, s.cp,
		append([]string{peer}, append(plan, "--ignore-preflight-errors=all")...)...))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// Without internet what could not be asked is said.
	result, err = s.cp.Run(t.Context(), ours, "upgrade", "plan")
	if err != nil || !strings.Contains(result.Stderr, "has a newer patch release is not known") {
		t.Errorf("%v\n%s", err, result.Stderr)
	}

	// A scheduler that is gone is found without a Job.
	run(t, s.cp, "mv", "/etc/kubernetes/manifests/kube-scheduler.yaml", "/root/kube-scheduler.yaml")
	refused(t, s.cp, []string{"StaticPodManifest", "kube-scheduler.yaml"},
		append([]string{ours}, plan...)...)
	await(t, "the plan to miss the leader", patience, func() error {
		command := append([]string{ours},
			append(plan, "--ignore-preflight-errors=StaticPodManifest")...)
		result, err := s.cp.Run(t.Context(), command...)
		if err == nil {
			return errors.New("it succeeds")
		}
		explained(t, result, []string{"CreateJob", "kube-scheduler has"})
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
