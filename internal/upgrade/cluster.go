// Package upgrade decides how a cluster gets from one Kubernetes version to another: what runs in
// it now, which versions it can be upgraded to, which steps that takes, and which preflight checks
// come first. It only reads.
package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/config"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

var (
	podKind        = corev1.SchemeGroupVersion.WithKind("Pod")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
)

// Instance is one running instance of a component.
type Instance struct {
	Node    string
	Version string // image tag, or the version that the kubelet reports
}

// Cluster is what runs in a cluster, as far as an upgrade is concerned.
type Cluster struct {
	Config            node.Cluster          // stored in ConfigMap kubeadm-config
	Version           *version.Version      // the newest of its API servers
	ControlPlane      map[string][]Instance // instances of each component; none of an external etcd
	ControlPlaneNodes []string              // names of Nodes that run an API server
	Kubelets          []Instance
	CoreDNS           string            // image tag; empty if CoreDNS is not deployed
	Corefile          *string           // nil without ConfigMap coredns
	ComponentConfigs  []ComponentConfig // of kube-proxy, then of the kubelet
}

// ReadCluster reads what runs in the cluster as the identity, and returns warnings about it.
func ReadCluster(ctx context.Context, r state.Reader, as state.Identity) (*Cluster, []string, error) {
	return ReadClusterOf(ctx, r, as, func(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
		return state.ListOf[corev1.Node](ctx, r, state.Query{GVK: state.NodeKind, As: as,
			Fields: []string{KubeletVersionField}, Keep: KeepRole})
	})
}

// KubeletVersionField is the path of the field of Nodes that an upgrade needs.
const KubeletVersionField = "status.nodeInfo.kubeletVersion"

// KeepRole is the Keep of a query for Nodes, of which a cluster may have thousands: of a Node's metadata it leaves the name
// and the label of a control plane node.
func KeepRole(u *unstructured.Unstructured) bool {
	meta := map[string]any{"name": u.GetName()}
	if value, ok := u.GetLabels()[node.ControlPlaneLabel]; ok {
		meta["labels"] = map[string]any{node.ControlPlaneLabel: value}
	}
	u.Object["metadata"] = meta
	return true
}

// ReadClusterOf is ReadCluster for a caller that lists the Nodes itself.
func ReadClusterOf(ctx context.Context, r state.Reader, as state.Identity,
	listNodes func(context.Context, state.Reader) ([]corev1.Node, error),
) (c *Cluster, warnings []string, err error) {
	c = &Cluster{}
	read := reader{state: r, as: as}
	if c.Config, warnings, err = read.storedCluster(ctx); err != nil {
		return nil, warnings, err
	}
	// In a large cluster the Nodes take longest, as many pages that follow each other: the rest is read meanwhile.
	var nodes []corev1.Node
	var pods []unstructured.Unstructured
	errs := readTogether(
		func() (err error) { nodes, err = listNodes(ctx, r); return err },
		func() (err error) { pods, err = read.controlPlanePods(ctx); return err },
		func() (err error) { c.CoreDNS, c.Corefile, err = read.coreDNS(ctx); return err },
		func() (err error) { c.ComponentConfigs, err = read.componentConfigs(ctx, &c.Config); return err })
	if errs[0] != nil {
		return nil, warnings, fmt.Errorf("reading the versions of the kubelets: %w", errs[0])
	}
	others := map[string]bool{} // Nodes without the label
	for _, n := range nodes {
		if _, ok := n.Labels[node.ControlPlaneLabel]; !ok {
			others[n.Name] = true
		}
	}
	if errs[1] != nil {
		return nil, warnings, errs[1]
	}
	more, err := c.findVersions(pods, func(name string) (bool, error) {
		return others[name] && len(others) < len(nodes), nil
	})
	warnings = append(warnings, more...)
	if err := cmp.Or(err, errs[2], errs[3]); err != nil {
		return nil, warnings, err
	}
	for _, n := range nodes {
		c.Kubelets = append(c.Kubelets, Instance{n.Name, n.Status.NodeInfo.KubeletVersion})
	}
	sortByVersion(c.Kubelets)
	return c, warnings, nil
}

// readTogether calls the functions at the same time and returns their errors in the same order. A panic
// continues in the goroutine of the caller, which cleans up.
func readTogether(reads ...func() error) []error {
	errs, panics := make([]error, len(reads)), make([]any, len(reads))
	var wg sync.WaitGroup
	for i, read := range reads {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = read()
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return errs
}

// ReadControlPlane is ReadCluster without the kubelets and the add-ons, which costs the same in a cluster of any size.
func ReadControlPlane(ctx context.Context, r state.Reader, as state.Identity) (c *Cluster, warnings []string, err error) {
	c = &Cluster{}
	read := reader{state: r, as: as}
	if c.Config, warnings, err = read.storedCluster(ctx); err != nil {
		return nil, warnings, err
	}
	var labelled, pods []unstructured.Unstructured
	errs := readTogether(
		func() (err error) {
			labelled, err = r.List(ctx, state.Query{GVK: state.NodeKind, As: as, LabelSelector: node.ControlPlaneLabel,
				Fields: []string{"metadata"}})
			return err
		},
		func() (err error) { pods, err = read.controlPlanePods(ctx); return err })
	if errs[0] != nil {
		return nil, warnings, fmt.Errorf("reading which nodes are control plane nodes: %w", errs[0])
	}
	if errs[1] != nil {
		return nil, warnings, errs[1]
	}
	more, err := c.findVersions(pods, func(name string) (bool, error) {
		if name == "" || len(labelled) == 0 || slices.ContainsFunc(labelled,
			func(u unstructured.Unstructured) bool { return u.GetName() == name }) {
			return false, nil
		}
		// The Pod of a Node that is gone counts, as it does where all Nodes are read.
		_, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, append(warnings, more...), err
	}
	return c, append(warnings, more...), nil
}

// ReadConfig reads the ClusterConfiguration that the cluster stores as the identity, and returns
// warnings about it.
func ReadConfig(ctx context.Context, r state.Reader, as state.Identity) (node.Cluster, []string, error) {
	return reader{state: r, as: as}.storedCluster(ctx)
}

// ErrNoAPIServerPod is wrapped by the error of ReadCluster when no API server is known. It may pass:
// a kubelet deletes the mirror Pod of a changed manifest before it creates the new one.
var ErrNoAPIServerPod = errors.New("there is no kube-apiserver Pod with the labels " +
	"component=kube-apiserver,tier=control-plane in namespace kube-system")

// findVersion takes the version of the newest API server for that of the cluster.
func (c *Cluster) findVersion() (warning string, err error) {
	instances := c.ControlPlane[release.APIServer]
	if len(instances) == 0 {
		return "", problem.New(ErrNoAPIServerPod,
			"kubeadm upgrades only control planes that run as static Pods, which is how it creates them")
	}
	for _, i := range instances {
		v, err := version.ParseSemantic(i.Version)
		if err != nil {
			return "", fmt.Errorf("kube-apiserver of node %s has an image with the tag %s, "+
				"which is not a version", i.Node, untrusted.Quote(i.Version))
		}
		if c.Version == nil || c.Version.LessThan(v) {
			c.Version = v
		}
		c.ControlPlaneNodes = append(c.ControlPlaneNodes, i.Node)
	}
	slices.Sort(c.ControlPlaneNodes)
	if instances[0].Version == instances[len(instances)-1].Version { // they are sorted
		return "", nil
	}
	remedy := "run \"kubeadm upgrade node\" on the nodes with the older ones"
	if stored, err := version.ParseSemantic(c.Config.Version); err == nil && c.Version.GreaterThan(stored) {
		remedy = ApplyHint("on the node with the newest one", c.Version)
	}
	return "the API servers have different versions, " + listVersions(instances) + ": an upgrade is unfinished; " + remedy, nil
}

// APIServerOf is the version of the API server of a node.
func (c *Cluster) APIServerOf(node string) (v *version.Version, found bool) {
	for _, i := range c.ControlPlane[release.APIServer] {
		if i.Node == node {
			v, err := version.ParseSemantic(i.Version)
			return v, err == nil
		}
	}
	return nil, false
}

// HasOlderComponent reports whether a component of the control plane of a node is older than a version.
func (c *Cluster) HasOlderComponent(node string, than *version.Version) bool {
	return slices.ContainsFunc(controlPlaneComponents(), func(component string) bool {
		return slices.ContainsFunc(c.ControlPlane[component], func(i Instance) bool {
			v, err := version.ParseSemantic(i.Version)
			return i.Node == node && err == nil && v.LessThan(than)
		})
	})
}

// listVersions is "v1.36.3 (cp1), v1.37.1 (cp2)".
func listVersions(instances []Instance) string {
	var list []string
	for _, i := range instances {
		list = append(list, fmt.Sprintf("%s (%s)", i.Version, i.Node))
	}
	return strings.Join(list, ", ")
}

// reader reads objects of kube-system.
type reader struct {
	state state.Reader
	as    state.Identity
}

// configMap reads a ConfigMap of kube-system; it is nil if there is none.
func (r reader) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	return existing.ReadConfigMap(ctx, r.state, r.as, name)
}

// list reads objects of kube-system, or all objects of a kind that has no namespace.
func (r reader) list(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	q.As = r.as
	return r.state.List(ctx, q)
}

func (r reader) storedCluster(ctx context.Context) (node.Cluster, []string, error) {
	document, err := existing.ReadClusterConfiguration(ctx, r.state, r.as)
	if err != nil {
		return node.Cluster{}, nil, err
	}
	cluster, warnings, err := config.StoredCluster(document)
	if err != nil {
		return cluster, warnings, problem.During(existing.ReadingConfig, err,
			"correct it: kubectl edit configmap kubeadm-config --namespace kube-system",
			existing.RecreateConfig)
	}
	return cluster, warnings, nil
}

// controlPlanePods lists the static Pods of the control plane, and others with their label.
func (r reader) controlPlanePods(ctx context.Context) ([]unstructured.Unstructured, error) {
	found, err := r.list(ctx, state.Query{GVK: podKind, Namespace: metav1.NamespaceSystem, LabelSelector: "tier=control-plane"})
	if err != nil {
		return nil, fmt.Errorf("reading the versions of the control plane: %w", err)
	}
	return found, nil
}

// findVersions finds the versions of the control plane by its Pods, and returns warnings about them.
func (c *Cluster) findVersions(pods []unstructured.Unstructured,
	isOther func(name string) (bool, error)) (warnings []string, err error) {
	if warnings, err = c.addInstances(pods, isOther); err != nil {
		return warnings, err
	}
	warning, err := c.findVersion()
	if err != nil {
		return warnings, err
	}
	if warning != "" {
		warnings = append(warnings, warning)
	}
	if running := "v" + c.Version.String(); running != c.Config.Version {
		warnings = append(warnings, fmt.Sprintf(
			"ConfigMap kube-system/kubeadm-config says Kubernetes %s, but the newest API server is "+
				"%s: an upgrade is unfinished, or a manifest was changed manually",
			c.Config.Version, running))
	}
	return warnings, nil
}

// addInstances finds the versions of the static Pods by their images. The kubelet of any node can create such a
// Pod, but not label its Node: where Nodes are labelled, the Pods of others, as isOther says, are ignored with a warning.
func (c *Cluster) addInstances(pods []unstructured.Unstructured,
	isOther func(name string) (bool, error)) (warnings []string, err error) {
	c.ControlPlane = map[string][]Instance{}
	for _, u := range pods {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object,
			&pod); err != nil {
			return warnings, fmt.Errorf("reading Pod %s: %w", u.GetName(), err)
		}
		component := pod.Labels["component"]
		if component != release.Etcd && !slices.Contains(controlPlaneComponents(), component) {
			continue
		}
		other, err := isOther(pod.Spec.NodeName)
		if err != nil {
			return warnings, fmt.Errorf("reading the Node of Pod kube-system/%s: %w", pod.Name, err)
		}
		if other {
			warnings = append(warnings, fmt.Sprintf("Pod kube-system/%s is ignored: its Node %s does not have the "+
				"label %s; %s", pod.Name, pod.Spec.NodeName, node.ControlPlaneLabel,
				untrusted.CommandHint("if it is a control plane node", "kubectl label node", pod.Spec.NodeName,
					node.ControlPlaneLabel+"=")))
			continue
		}
		tag, err := imageTag(component, pod.Spec.Containers)
		if err != nil {
			return warnings, fmt.Errorf("reading Pod kube-system/%s: %w", pod.Name, err)
		}
		c.ControlPlane[component] = append(c.ControlPlane[component], Instance{pod.Spec.NodeName, tag})
	}
	for _, instances := range c.ControlPlane {
		sortByVersion(instances)
	}
	return warnings, nil
}

// imageTag is the version by which the image of a component is tagged: that of the container with its
// name, before which a patch may have put a sidecar, else of the first one.
func imageTag(component string, containers []corev1.Container) (string, error) {
	if len(containers) == 0 {
		return "", errors.New("it has no container")
	}
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == component })
	return release.ImageTag(containers[max(i, 0)].Image)
}

// sortByVersion sorts by the text of the version; instances of one version keep their order.
func sortByVersion(instances []Instance) {
	slices.SortStableFunc(instances,
		func(a, b Instance) int { return strings.Compare(a.Version, b.Version) })
}

func (r reader) coreDNS(ctx context.Context) (tag string, corefile *string, err error) {
	found, err := r.list(ctx, state.Query{
		GVK: deploymentKind, Namespace: metav1.NamespaceSystem, LabelSelector: "k8s-app=kube-dns",
	})
	if err == nil && len(found) > 1 {
		err = problem.New(
			fmt.Errorf("%d Deployments of kube-system have the label k8s-app=kube-dns",
				len(found)), "keep the one for CoreDNS, and delete or relabel the others")
	}
	if err == nil && len(found) == 1 {
		var d appsv1.Deployment
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, &d)
		if err == nil {
			tag, err = imageTag("coredns", d.Spec.Template.Spec.Containers)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading the version of CoreDNS: %w", err)
	}
	c, err := r.configMap(ctx, "coredns")
	if err != nil {
		return "", nil, fmt.Errorf("reading the Corefile: %w", err)
	}
	if c == nil {
		return tag, nil, nil
	}
	text, ok := c.Data[manifest.CorefileKey]
	if !ok {
		return "", nil, problem.During("reading the Corefile", fmt.Errorf(
			"ConfigMap kube-system/coredns has no key %s", manifest.CorefileKey),
			"add the key, or delete the ConfigMap")
	}
	return tag, &text, nil
}
