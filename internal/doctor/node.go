package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// isReady returns whether a node is ready, and the reason if it is not.
func isReady(n corev1.Node) (bool, corev1.NodeCondition) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c
		}
	}
	return false, corev1.NodeCondition{Message: "its kubelet has not reported yet"}
}

// isAnyReady reports whether a node is ready, or that is not known.
func isAnyReady(ctx context.Context, r state.Reader, c *cluster) bool {
	all, err := c.readNodes(ctx, r)
	return err != nil || slices.ContainsFunc(all, func(n corev1.Node) bool {
		ready, _ := isReady(n)
		return ready
	})
}

func checkNodes(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	all, err := m.cluster.readNodes(ctx, r)
	if apierrors.IsNotFound(err) {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   fmt.Sprintf("there is no Node %s in the cluster", m.Name),
			Remedy: "restart the kubelet, which creates it", Command: "systemctl restart kubelet"})
		return
	}
	if m.cluster.skipOnError(rep, err) {
		return
	}
	isOwn := func(n corev1.Node) bool { return n.Name == m.Name }
	if m.IsNode && !slices.ContainsFunc(all, isOwn) {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     fmt.Sprintf("there is no Node %s in the cluster", m.Name),
			Evidence: "the kubelet's client certificate gives this node that name",
			Remedy:   "restart the kubelet, which creates it", Command: "systemctl restart kubelet"})
	}
	for _, n := range all {
		ready, condition := isReady(n)
		if !ready {
			rep.Add(newNotReadyFinding(n.Name, condition))
		}
		for _, c := range n.Status.Conditions {
			if c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue &&
				strings.HasSuffix(string(c.Type), "Pressure") {
				rep.Add(preflight.Finding{Severity: preflight.Warning,
					Text:     fmt.Sprintf("node %s reports %s", n.Name, c.Type),
					Evidence: c.Message, Remedy: "free up resources on that node"})
			}
		}
	}
	cluster, err := m.cluster.versions(ctx, r)
	if err != nil {
		return // check Versions reports it
	}
	for _, n := range all {
		_, ok := n.Labels[node.ControlPlaneLabel]
		if !ok && slices.Contains(cluster.ControlPlaneNodes, n.Name) {
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text: fmt.Sprintf("node %s runs an API server, but does not have the label %s", n.Name,
					node.ControlPlaneLabel),
				Remedy:  "set the label",
				Command: untrusted.Command("kubectl label node", n.Name, node.ControlPlaneLabel+"=")})
		}
	}
}

func newNotReadyFinding(name string, c corev1.NodeCondition) preflight.Finding {
	f := preflight.Finding{Severity: preflight.Error, Text: fmt.Sprintf("node %s is not ready", name),
		Evidence: strings.TrimPrefix(c.Reason+": "+c.Message, ": "),
		Remedy:   "run this command on that node"}
	if strings.Contains(c.Message, "cni") || strings.Contains(c.Message, "NetworkPluginNotReady") {
		f.Text = fmt.Sprintf("node %s has no Pod network", name)
		f.Remedy = "install a Pod network add-on, or check its Pod on that node"
	}
	return f
}
