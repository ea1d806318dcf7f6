package upgrade

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// A newer API server is left by an interrupted "upgrade apply", or by a downgrade that another node has already followed.
func TestCompletionHints(t *testing.T) {
	const (
		node      = "complete the upgrade first, on that node: kubeadm upgrade node"
		apply     = "complete the upgrade first, on that node: kubeadm upgrade apply v1.37.1"
		downgrade = "if the cluster is being downgraded, on that node instead: kubeadm upgrade node"
	)
	for name, c := range map[string]struct {
		own, other string // versions of API servers
		want       []string
	}{
		"older":                                {"v1.35.4", "v1.36.3", []string{node}},
		"newer, another one as stored":         {"v1.37.1", "v1.36.3", []string{apply, downgrade}},
		"newer, and no API server as stored":   {"v1.37.1", "v1.37.1", []string{apply}},
		"newer, and another one of no version": {"v1.37.1", "latest", []string{apply}},
	} {
		cluster := &Cluster{ControlPlane: map[string][]Instance{
			"kube-apiserver": {{Node: "cp1", Version: c.own}, {Node: "cp2", Version: c.other}}}}
		got := cluster.CompletionHints(version.MustParseSemantic(c.own), version.MustParseSemantic("v1.36.3"))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
