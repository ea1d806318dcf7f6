package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/world/worldtest/plane"
)

// TestUpgradePlanMatchesUpstream compares the output with upstream's kubeadm. Upstream's asks a
// real API server, ours has the same objects in memory. The test is skipped unless KUBEADM_PEER
// names upstream's kubeadm and KUBEADM_BUNDLE a directory with the components of a release.
func TestUpgradePlanMatchesUpstream(t *testing.T) {
	peer := os.Getenv("KUBEADM_PEER")
	if peer == "" {
		t.Skip("KUBEADM_PEER names no upstream kubeadm to compare with")
	}
	if _, err := os.Stat("/etc/kubernetes/kubelet.conf"); err == nil {
		t.Skip("this machine has a cluster that the peer would look at")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	// The peer needs the Node of this machine. It creates no Job if no Node is schedulable.
	s := newClusterMachine(t,
		"{apiVersion: v1, kind: Node, metadata: {name: "+strings.ToLower(host)+"}, "+
			"status: {nodeInfo: {kubeletVersion: v1.35.4}}}")
	for _, o := range s.world.Objects {
		if o.GetKind() != "Node" {
			continue
		}
		if err := unstructured.SetNestedField(o.Object, true, "spec", "unschedulable"); err != nil {
			t.Fatal(err)
		}
	}
	a := plane.StartAPIServer(t)
	a.Apply(t, s.world.AllObjects()...)
	for _, c := range []struct {
		line        string
		description string // of ours, if the peer names another minor than the version has
	}{
		{"v1.36.9 --output json", ""},
		{"v1.36.9 --output yaml --etcd-upgrade=false", ""},
		{"v1.36.9 --output kyaml", ""},
		{"v1.36.9 --output jsonpath={.availableUpgrades[*].components[*].newVersion}", ""},
		{"v1.36.9 --output go-template={{.kind}}", ""},
		{"v1.36.9 --output json --print-config", ""},
		{"v1.36.3 --output json", ""},
		{"v1.36.0 --output yaml", ""},
		{"v1.37.1 --output json", "stable version"},
		{"v1.37.9 --output yaml", "stable version"},
		{"v1.37.0-rc.1 --output json", "release candidate version"},
		{"v1.37.0-beta.0 --output json", "experimental version"},
	} {
		t.Run(c.line, func(t *testing.T) {
			args := append([]string{"upgrade", "plan"}, strings.Fields(c.line)...)
			command := exec.Command(peer, append(args, "--kubeconfig="+a.Admin.Kubeconfig,
				"--ignore-preflight-errors=all")...)
			var said strings.Builder
			command.Stderr = &said
			want, err := command.Output()
			if err != nil {
				t.Fatalf("the peer: %v\n%s", err, said.String())
			}
			if err := s.run(t.Context(), args...); err != nil {
				t.Fatal(err)
			}
			text := string(want)
			if c.description != "" {
				text = strings.Replace(text, "version in the v1.36 series", c.description, 1)
			}
			if diff := cmp.Diff(text, s.out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
