package upgrade

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/release"
)

// Step is one thing to do on the way to a version.
type Step struct {
	Text    string
	Command string // to run for it; may be empty
}

// IsJump reports whether the version is of a minor that cannot be reached in one step.
func (c *Cluster) IsJump(to *version.Version) bool {
	return to.Major() != c.Version.Major() || to.Minor() > c.Version.Minor()+1
}

// Steps lists what takes the cluster to the version, one minor after the other. newestPatch names
// the newest release of a minor.
func (c *Cluster) Steps(
	to Candidate, tool release.Tool, newestPatch func(minor uint) string,
) (steps []Step) {
	add := func(command, format string, args ...any) {
		steps = append(steps, Step{fmt.Sprintf(format, args...), command})
	}
	kubelets := map[string]uint{} // minor of each node's kubelet
	for _, k := range c.Kubelets {
		if v, err := version.ParseSemantic(k.Version); err == nil {
			kubelets[k.Node] = v.Minor()
		}
	}
	reached := "v" + c.Version.String()
	first, others := c.ControlPlaneNodes[0], c.ControlPlaneNodes[1:]
	for minor := c.Version.Minor() + 1; minor <= to.Version.Minor(); minor++ {
		next, flag := newestPatch(minor), ""
		if minor == to.Version.Minor() {
			next, flag = to.String(), to.Flag()
		}
		var tooOld []string
		for _, k := range c.Kubelets {
			if known, ok := kubelets[k.Node]; ok && known+release.KubeletSkew < minor {
				tooOld = append(tooOld, k.Node)
				kubelets[k.Node] = minor - 1
			}
		}
		if len(tooOld) > 0 {
			add("", "Upgrade the kubelets of these nodes to %s, because a kubelet may be at most %d minor "+
				"versions older than the API servers: %s",
				reached, release.KubeletSkew, strings.Join(tooOld, ", "))
		}
		if !canDeploy(tool, minor) {
			add("", "Install kubeadm %s on every control plane node: this kubeadm, %s, cannot deploy "+
				"v1.%d", next, tool, minor)
		}
		add(strings.TrimSpace("kubeadm upgrade apply "+next+" "+flag), "On node %s", first)
		if len(others) > 0 {
			add("kubeadm upgrade node", "On the other control plane nodes, one at a time: %s",
				strings.Join(others, ", "))
		}
		reached = next
	}
	add("", "On every node, one at a time: drain it, run \"kubeadm upgrade node\" if it is a "+
		"worker, install kubelet %s, restart the kubelet and uncordon the node", reached)
	return steps
}

// canDeploy reports whether this program deploys releases of that minor.
func canDeploy(tool release.Tool, minor uint) bool {
	target, err := release.ParseTarget(fmt.Sprintf("v1.%d.0", minor))
	return err == nil && tool.CheckTarget(target) == nil && !tool.IsOlderThan(target)
}
