package upgrade

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/release"
	"kubeadm/internal/untrusted"
)

// ApplyHint says how to complete an "upgrade apply" to a version that was interrupted. It is re-run on the same node, which
// "where" names, and stores the version of the cluster after it has replaced the static Pods there.
func ApplyHint(where string, v *version.Version) string {
	return untrusted.CommandHint("complete the upgrade first, "+where, "kubeadm upgrade apply v%s", v.String())
}

// CompletionHints say what to run on a node whose API server does not run the version that the cluster stores. A newer one
// may also be left of a downgrade, if another API server already runs the stored version.
func (c *Cluster) CompletionHints(own, stored *version.Version) []string {
	if !own.GreaterThan(stored) {
		return []string{"complete the upgrade first, on that node: kubeadm upgrade node"}
	}
	hints := []string{ApplyHint("on that node", own)}
	if c.RunsAPIServer(stored) {
		hints = append(hints, "if the cluster is being downgraded, on that node instead: kubeadm upgrade node")
	}
	return hints
}

// RunsAPIServer reports whether a node runs an API server of a version.
func (c *Cluster) RunsAPIServer(wanted *version.Version) bool {
	return slices.ContainsFunc(c.ControlPlane[release.APIServer], func(i Instance) bool {
		v, err := version.ParseSemantic(i.Version)
		return err == nil && v.EqualTo(wanted)
	})
}
