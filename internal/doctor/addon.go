package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// describePods says what is wrong with the Pods that a selector selects.
func describePods(ctx context.Context, r state.Reader, as state.Identity,
	selector string) string {
	pods, err := state.ListOf[corev1.Pod](ctx, r, state.Query{
		GVK:       corev1.SchemeGroupVersion.WithKind("Pod"),
		Namespace: metav1.NamespaceSystem, LabelSelector: selector, As: as,
		Fields: []string{"spec.nodeName", "status.phase", "status.containerStatuses", "status.conditions"},
		Keep:   isFaulty})
	if err != nil {
		return ""
	}
	const most = 10 // lines
	var lines []string
	for _, p := range pods {
		text := string(p.Status.Phase)
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting != nil {
				text = fmt.Sprintf("%s: %s %s", text, s.State.Waiting.Reason, s.State.Waiting.Message)
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				text = fmt.Sprintf("%s: %s", text, c.Message)
			}
		}
		if text != string(corev1.PodRunning) {
			lines = append(lines, fmt.Sprintf("Pod %s on %q: %s", p.Name, p.Spec.NodeName, text))
		}
	}
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most], fmt.Sprintf("and %d more Pods", more))
	}
	return strings.Join(lines, "\n")
}

// isFaulty reports whether something may be wrong with a Pod: it does not run, or a container of it waits.
func isFaulty(u *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	containers, _, _ := unstructured.NestedSlice(u.Object, "status", "containerStatuses")
	return phase != string(corev1.PodRunning) || slices.ContainsFunc(containers, func(c any) bool {
		container, _ := c.(map[string]any)
		_, waits, _ := unstructured.NestedFieldNoCopy(container, "state", "waiting")
		return waits
	})
}

func checkCoreDNS(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	cluster, err := c.versions(ctx, r)
	if c.skipOnError(rep, err) || cluster.Config.DNS.Disabled {
		return
	}
	const selector, command = "k8s-app=kube-dns", "kubeadm upgrade node phase addon coredns"
	found, err := state.ListOf[appsv1.Deployment](ctx, r, state.Query{
		GVK:       appsv1.SchemeGroupVersion.WithKind("Deployment"),
		Namespace: metav1.NamespaceSystem, LabelSelector: selector, As: c.as})
	if c.skipOnError(rep, err) {
		return
	}
	f := preflight.Finding{Severity: preflight.Error}
	switch {
	case len(found) == 0:
		f.Text, f.Remedy, f.Command = "CoreDNS is not deployed", deployAddon, command
	case found[0].Spec.Replicas != nil && *found[0].Spec.Replicas == 0:
		f.Text, f.Remedy = "CoreDNS is scaled to 0 replicas", "scale it to 2 replicas"
		f.Command = untrusted.Command("kubectl -n kube-system scale --replicas=2 deployment",
			found[0].Name)
	case found[0].Status.AvailableReplicas == 0:
		f.Text = "no replica of CoreDNS is available"
		f.Evidence = describePods(ctx, r, c.as, selector)
		f.Remedy = "find out why: kubectl -n kube-system describe pods --selector " + selector
		if !isAnyReady(ctx, r, c) {
			f.NotMade = "see check Nodes"
		}
	default:
		f.Text = ""
	}
	if f.Text != "" {
		rep.Add(f)
	}
	_, err = r.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Service"),
		Namespace: metav1.NamespaceSystem, Name: "kube-dns", As: c.as})
	if apierrors.IsNotFound(err) {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   "there is no Service kube-system/kube-dns, through which Pods reach CoreDNS",
			Remedy: deployAddon, Command: command})
	}
}

// deployAddon is the remedy for an addon that is missing. The phases of an upgrade use what the cluster
// stores, and those of init the defaults.
const deployAddon = "deploy it from the configuration stored in the cluster, on a control plane node"

func checkKubeProxy(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	cluster, err := c.versions(ctx, r)
	if c.skipOnError(rep, err) || cluster.Config.Proxy.Disabled {
		return
	}
	const name = "kube-proxy"
	u, err := r.Object(ctx, state.Ref{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		Namespace: metav1.NamespaceSystem, Name: name, As: c.as})
	if apierrors.IsNotFound(err) {
		rep.Add(preflight.Finding{Severity: preflight.Warning, Text: "kube-proxy is not deployed",
			Remedy: "if the Pod network replaces it, set proxy.disabled: true in ConfigMap " +
				"kube-system/kubeadm-config; otherwise " + deployAddon,
			Command: "kubeadm upgrade node phase addon kube-proxy"})
		return
	}
	var set appsv1.DaemonSet
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set)
	}
	if c.skipOnError(rep, err) {
		return
	}
	if set.Status.NumberReady < set.Status.DesiredNumberScheduled {
		f := preflight.Finding{Severity: preflight.Error,
			Text: fmt.Sprintf("kube-proxy runs on %d of %d nodes", set.Status.NumberReady,
				set.Status.DesiredNumberScheduled),
			Evidence: describePods(ctx, r, c.as, "k8s-app="+name),
			Remedy:   "find out why: kubectl -n kube-system describe pods --selector k8s-app=" + name}
		all, err := c.readNodes(ctx, r)
		isNotReady := func(n corev1.Node) bool { ready, _ := isReady(n); return !ready }
		if err == nil && slices.ContainsFunc(all, isNotReady) {
			f.NotMade = "see check Nodes"
		}
		rep.Add(f)
	}
}
