package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// apiServerCheck is the check that reports why nothing of the cluster can be read.
const apiServerCheck = "APIServer"

// clusterChecks are the checks of what all nodes share.
func (m *machine) clusterChecks() []preflight.Check {
	if m.identity.Kubeconfig == "" {
		return []preflight.Check{{Name: "Cluster",
			Run: func(_ context.Context, _ state.Reader, rep *preflight.Report) {
				rep.Skip("this machine has no kubeconfig for a cluster; set --kubeconfig to check one")
			}}}
	}
	list := []preflight.Check{{Name: apiServerCheck, Run: m.checkAPIServer,
		Why: "everything in the cluster goes through the API server"}}
	if m.isControlPlane() {
		list = append(list, preflight.Check{Name: "EtcdMembers", Run: m.checkMembers,
			Why: "etcd stores the cluster's state; without a majority of its members nothing can be changed"})
	}
	return append(list,
		m.needsAPI("ClusterConfig", "joins and upgrades read the cluster's configuration",
			m.checkClusterConfig),
		m.needsAPI("Nodes", "Pods run only on nodes that are ready", m.checkNodes),
		m.needsAPI("Versions", "Kubernetes supports only certain combinations of versions "+
			"(https://kubernetes.io/releases/version-skew-policy/)", m.checkVersions),
		m.needsAPI("Leaders", "without a leader, Pods are neither created nor assigned to nodes",
			m.checkLeaders),
		m.needsAPI("CoreDNS", "Pods look up Services by name", m.checkCoreDNS),
		m.needsAPI("KubeProxy", "kube-proxy makes the addresses of Services work on each node", m.checkKubeProxy),
		m.needsAPI("ClusterInfo", "joining machines use it to find and verify the cluster", m.checkClusterInfo),
		m.needsAPI("BootstrapTokens", "anyone with a token can join a machine to the cluster", m.checkTokens),
		m.needsAPI("ClusterAccess", "joins, renewals and administrators need these roles and bindings",
			m.checkAccess),
		m.needsAPI("CertificateRequests", "a kubelet that is waiting for a certificate does not fully work",
			m.checkRequests))
}

// listObjects lists objects as values of their type.
func listObjects[T any](ctx context.Context, r state.Reader, q state.Query) ([]T, error) {
	found, err := r.List(ctx, q)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(found))
	for i, u := range found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &all[i]); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", q.GVK.Kind, u.GetName(), err)
		}
	}
	return all, nil
}

func (m *machine) checkAPIServer(ctx context.Context, r state.Reader, rep *preflight.Report) {
	_, err := m.api(ctx, r)
	if err == nil || apierrors.IsForbidden(err) { // it answers
		return
	}
	endpoint, endpointErr := m.endpoint(ctx)
	f := preflight.Finding{Severity: preflight.Error,
		Text: fmt.Sprintf("the API server at %s does not answer", endpoint), Evidence: err.Error(),
		Remedy: "run this command on a control plane node, and check the network between it and this machine"}
	_, isUnusable := errors.AsType[state.KubeconfigError](err)
	switch {
	case endpointErr != nil:
		f.Text = fmt.Sprintf("the API server cannot be queried: %v", endpointErr)
		f.Evidence, f.Remedy = "", "correct the kubeconfig "+m.identity.Kubeconfig
	case isUnusable:
		f.Text = fmt.Sprintf("the kubeconfig %s cannot be used", m.identity.Kubeconfig)
		f.Remedy = strings.Join(problem.Hints(err), "; ")
	case apierrors.IsUnauthorized(err):
		f.Text = fmt.Sprintf("the API server at %s rejects the user of %s", endpoint,
			m.identity.Kubeconfig)
		f.Remedy = "check the client certificate or token in that file"
	case m.isControlPlane():
		f.Remedy = "fix what check StaticPods reports on the control plane nodes; if it reports nothing, " +
			"check the load balancer"
	}
	rep.Add(f)
}

func (m *machine) checkClusterConfig(ctx context.Context, r state.Reader, rep *preflight.Report) {
	_, err := m.stored(ctx, r)
	if apierrors.IsForbidden(err) {
		m.skipOnError(rep, err)
	} else if err != nil {
		addError(rep, preflight.Finding{}, err)
	}
}

// readNodes lists the nodes, or this one alone if the user may not list them.
func (m *machine) readNodes(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
	all, err := m.nodes(ctx, r)
	if !apierrors.IsForbidden(err) {
		return all, err
	}
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: m.local.Name, As: m.identity})
	if err != nil {
		return nil, err
	}
	var own corev1.Node
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &own)
	return []corev1.Node{own}, err
}

func (m *machine) checkNodes(ctx context.Context, r state.Reader, rep *preflight.Report) {
	all, err := m.readNodes(ctx, r)
	if apierrors.IsNotFound(err) {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   fmt.Sprintf("there is no Node %s in the cluster", m.local.Name),
			Remedy: "restart the kubelet, which creates it", Command: "systemctl restart kubelet"})
		return
	}
	if m.skipOnError(rep, err) {
		return
	}
	isOwn := func(n corev1.Node) bool { return n.Name == m.local.Name }
	if m.isNode && !slices.ContainsFunc(all, isOwn) {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     fmt.Sprintf("there is no Node %s in the cluster", m.local.Name),
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
	cluster, err := m.cluster(ctx, r)
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

func (m *machine) checkVersions(ctx context.Context, r state.Reader, rep *preflight.Report) {
	cluster, err := m.cluster(ctx, r)
	if m.skipOnError(rep, err) {
		return
	}
	for _, text := range cluster.warnings {
		rep.Add(preflight.Finding{Severity: preflight.Warning, Text: text,
			Remedy: "finish the upgrade: kubeadm upgrade apply on one control plane node, kubeadm upgrade node on the others"})
	}
	newer, older := cluster.SkewedKubelets()
	for _, k := range newer {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     fmt.Sprintf("the kubelet of node %s is newer than the control plane", k.Node),
			Evidence: fmt.Sprintf("kubelet %s, API server v%s", k.Version, cluster.Version),
			Remedy:   "upgrade the control plane, or install an older kubelet on that node"})
	}
	for _, k := range older {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     fmt.Sprintf("the kubelet of node %s is too old for the control plane", k.Node),
			Evidence: fmt.Sprintf("kubelet %s, API server v%s", k.Version, cluster.Version),
			Remedy:   "upgrade the kubelet of that node"})
	}
}

func (m *machine) checkLeaders(ctx context.Context, r state.Reader, rep *preflight.Report) {
	cluster, err := m.cluster(ctx, r)
	if m.skipOnError(rep, err) {
		return
	}
	runAll(ctx, r, rep, cluster.LeaderChecks(m.identity))
}

// isAnyReady reports whether a node is ready, or that is not known.
func (m *machine) isAnyReady(ctx context.Context, r state.Reader) bool {
	all, err := m.readNodes(ctx, r)
	return err != nil || slices.ContainsFunc(all, func(n corev1.Node) bool {
		ready, _ := isReady(n)
		return ready
	})
}

// describePods says what is wrong with the Pods that a selector selects.
func (m *machine) describePods(ctx context.Context, r state.Reader, selector string) string {
	pods, err := listObjects[corev1.Pod](ctx, r, state.Query{
		GVK:       corev1.SchemeGroupVersion.WithKind("Pod"),
		Namespace: metav1.NamespaceSystem, LabelSelector: selector, As: m.identity})
	if err != nil {
		return ""
	}
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
	return strings.Join(lines, "\n")
}

func (m *machine) checkCoreDNS(ctx context.Context, r state.Reader, rep *preflight.Report) {
	cluster, err := m.cluster(ctx, r)
	if m.skipOnError(rep, err) || cluster.Config.DNS.Disabled {
		return
	}
	const selector, command = "k8s-app=kube-dns", "kubeadm upgrade node phase addon coredns"
	found, err := listObjects[appsv1.Deployment](ctx, r, state.Query{
		GVK:       appsv1.SchemeGroupVersion.WithKind("Deployment"),
		Namespace: metav1.NamespaceSystem, LabelSelector: selector, As: m.identity})
	if m.skipOnError(rep, err) {
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
		f.Evidence = m.describePods(ctx, r, selector)
		f.Remedy = "find out why: kubectl -n kube-system describe pods --selector " + selector
		if !m.isAnyReady(ctx, r) {
			f.NotMade = "see check Nodes"
		}
	default:
		f.Text = ""
	}
	if f.Text != "" {
		rep.Add(f)
	}
	_, err = r.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Service"),
		Namespace: metav1.NamespaceSystem, Name: "kube-dns", As: m.identity})
	if apierrors.IsNotFound(err) {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   "there is no Service kube-system/kube-dns, through which Pods reach CoreDNS",
			Remedy: deployAddon, Command: command})
	}
}

// deployAddon is the remedy for an addon that is missing. The phases of an upgrade use what the cluster
// stores, and those of init the defaults.
const deployAddon = "deploy it from the configuration stored in the cluster, on a control plane node"

func (m *machine) checkKubeProxy(ctx context.Context, r state.Reader, rep *preflight.Report) {
	cluster, err := m.cluster(ctx, r)
	if m.skipOnError(rep, err) || cluster.Config.Proxy.Disabled {
		return
	}
	const name = "kube-proxy"
	u, err := r.Object(ctx, state.Ref{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		Namespace: metav1.NamespaceSystem, Name: name, As: m.identity})
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
	if m.skipOnError(rep, err) {
		return
	}
	if set.Status.NumberReady < set.Status.DesiredNumberScheduled {
		f := preflight.Finding{Severity: preflight.Error,
			Text: fmt.Sprintf("kube-proxy runs on %d of %d nodes", set.Status.NumberReady,
				set.Status.DesiredNumberScheduled),
			Evidence: m.describePods(ctx, r, "k8s-app="+name),
			Remedy:   "find out why: kubectl -n kube-system describe pods --selector k8s-app=" + name}
		all, err := m.readNodes(ctx, r)
		isNotReady := func(n corev1.Node) bool { ready, _ := isReady(n); return !ready }
		if err == nil && slices.ContainsFunc(all, isNotReady) {
			f.NotMade = "see check Nodes"
		}
		rep.Add(f)
	}
}

// requestAge is how long a request may wait until it is reported: most are approved at once.
const requestAge = 10 * time.Second

func (m *machine) checkRequests(ctx context.Context, r state.Reader, rep *preflight.Report) {
	all, err := listObjects[certv1.CertificateSigningRequest](ctx, r, state.Query{
		GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), As: m.identity})
	if m.skipOnError(rep, err) {
		return
	}
	for _, c := range all {
		if len(c.Status.Conditions) > 0 || len(c.Status.Certificate) > 0 ||
			r.Now().Sub(c.CreationTimestamp.Time) < requestAge {
			continue
		}
		f := preflight.Finding{Severity: preflight.Warning,
			Text: fmt.Sprintf("certificate signing request %s is waiting for approval",
				untrusted.Line(c.Name)),
			Evidence: fmt.Sprintf("signer %s, user %s, since %s", untrusted.Line(c.Spec.SignerName),
				untrusted.Line(c.Spec.Username), c.CreationTimestamp.UTC().Format(time.RFC3339)),
			Remedy: "check who created it, then approve or deny it", Command: untrusted.Command("kubectl certificate approve", c.Name)}
		if c.Spec.SignerName == certv1.KubeletServingSignerName {
			f.Remedy, f.Command = "approve the legitimate requests", "kubeadm certs approve-kubelet-serving"
		}
		rep.Add(f)
	}
}
