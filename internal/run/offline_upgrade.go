package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/world/dryrun"
)

// BeginOfflineUpgrade is Begin for the dry run of an upgrade on a machine without the kubeconfig:
// the preview then shows a simulated cluster with the defaults of this program. For "upgrade apply"
// this machine is its control plane node; for "upgrade node" it is what its files say. The files
// that an upgrade reads are simulated if they do not exist. It returns the local part of the intent
// with the name of the node.
func (r *Run) BeginOfflineUpgrade(ctx context.Context, intent node.Upgrade, how config.RunOptions,
	kubeconfig string) (node.Local, error) {
	local := intent.Local
	n, err := r.newOfflineNode(ctx, intent)
	if err != nil {
		return local, err
	}
	local.Name = n.Name
	if err := r.Begin(ctx, n, how); err != nil {
		return local, err
	}
	r.Emit(engine.Warned, fmt.Sprintf("kubeconfig %s does not exist: using a simulated cluster of "+
		"Kubernetes %s with default settings; to read a real one, set --kubeconfig",
		kubeconfig, n.Cluster.Version))
	simulation, ok := r.world.(*dryrun.World)
	if !ok {
		return local, errors.New("only a dry run can upgrade a simulated cluster")
	}
	return local, r.simulateUpgrade(ctx, simulation, n)
}

// newOfflineNode is this machine as a node of a simulated cluster.
func (r *Run) newOfflineNode(ctx context.Context, intent node.Upgrade) (*node.Node, error) {
	facts, err := r.host.Facts(ctx, Needs{})
	if err != nil {
		return nil, err
	}
	local := intent.Local
	local.Name = strings.ToLower(strings.TrimSpace(facts.Hostname))
	if local, err = existing.ReadMachine(ctx, r.world, local); err != nil {
		return nil, err
	}
	if intent.Version != "" {
		local.Role = node.ControlPlane
	}
	// Name and address of this machine, which may be unfit for a new cluster, come afterwards.
	flags := config.NewInitFlags()
	target, _, err := upgrade.Releases{Tool: r.tool, Fetch: FetchVersion(ctx, r.world)}.
		Target(cmp.Or(intent.Version, r.tool.String()))
	if err != nil { // preflight reports it
		target, err = release.ParseTarget(r.tool.String())
	}
	if err != nil {
		return nil, err
	}
	flags.KubernetesVersion = simulatedVersion(r.tool, target)
	flags.AdvertiseAddress, flags.NodeName = exampleAddress, "simulated"
	n, _, err := config.Init(config.File{}, flags, facts)
	if err != nil {
		return nil, err
	}
	if local.Role == node.ControlPlane && local.Address == "" {
		local.Address, local.BindPort = exampleAddress, n.BindPort
		for _, a := range facts.Addresses {
			if a.DefaultRoute {
				local.Address = a.IP
				break
			}
		}
	}
	local.Paths.Certificates = n.Paths.Certificates
	n.Local = local
	return n, nil
}

// simulatedVersion is the version of a simulated cluster: the first release of this program's minor
// version, or of that of the version to upgrade to. If that is not older than the latter, it is the
// first release of the minor version before, if that is supported.
func simulatedVersion(tool release.Tool, target release.Target) string {
	first := func(minor uint) string { return fmt.Sprintf("v1.%d.0", minor) }
	minor := tool.Version().Minor()
	if tool.CheckTarget(target) != nil { // preflight reports it
		return first(minor)
	}
	minor = min(minor, target.Minor())
	present, _ := release.ParseTarget(first(minor))
	previous, err := release.ParseTarget(first(minor - 1))
	if present.Version().LessThan(target.Version()) || err != nil ||
		tool.CheckTarget(previous) != nil {
		return present.String()
	}
	return previous.String()
}

// simulateUpgrade lets the preview show what an upgrade of the node reads. Of what an upgrade
// writes it shows as little as possible, so that the dry run lists all that would be written.
func (r *Run) simulateUpgrade(ctx context.Context, simulation *dryrun.World, n *node.Node) error {
	older := *n
	older.Cluster.Kubelet.Config = &kubeletconfig.KubeletConfiguration{}
	kubelets, err := manifest.KubeletConfig(&older)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		n.Paths.KubeletConfig(): []byte(kubelets.Data[manifest.KubeletConfigKey])}
	objects := []state.Object{manifest.KubeadmConfig(n), kubelets}
	var members []state.Member
	if n.Role == node.ControlPlane {
		dns, err := olderCoreDNS(n)
		if err != nil {
			return err
		}
		objects = append(objects, dns, readyNode(n))
		// The manifests are read again later: what is to be said about patches is said then.
		e := engine.New(engine.Env{World: simulation, Local: n.Local, Emit: func(engine.Event) {}})
		for _, component := range staticpod.Components(n) {
			m, err := staticpod.Render(ctx, e, n, component, nil)
			if err != nil {
				return err
			}
			pod, err := mirrorPod(n, m)
			if err != nil {
				return err
			}
			files[n.Paths.Manifest(component)] = m.Data
			objects = append(objects, pod)
		}
		for _, component := range []string{release.ControllerManager, release.Scheduler} {
			objects = append(objects, leaderLease(n, component, simulation.Now()))
		}
		members = []state.Member{{ID: 1, Name: n.Name, PeerURLs: []string{n.PeerURL()},
			ClientURLs: []string{n.ClientURL()}}}
	}
	if err := simulation.SimulateMachine(ctx, files, members); err != nil {
		return err
	}
	return simulation.SimulateCluster(map[string]string{}, objects...)
}

// olderCoreDNS is the Deployment to be upgraded, as far as upgrades read it.
func olderCoreDNS(n *node.Node) (*appsv1.Deployment, error) {
	images, err := manifest.Images(n)
	if err != nil {
		return nil, err
	}
	key, value, _ := strings.Cut(manifest.DNSSelector, "=")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
		Name: "coredns", Labels: map[string]string{key: value}}}
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	d.Spec.Replicas = new(int32(manifest.DNSReplicas))
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coredns",
		Image: images.CoreDNS()}}
	return d, nil
}

// readyNode is the Node object of a control plane node whose kubelet has the cluster's version.
func readyNode(n *node.Node) *corev1.Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name,
		Labels: node.ControlPlaneLabels()}}
	o.SetGroupVersionKind(state.NodeKind)
	o.Status.NodeInfo.KubeletVersion = n.Cluster.Version
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady,
		Status: corev1.ConditionTrue}}
	return o
}

// mirrorPod is the Pod object by which the kubelet reports a static Pod.
func mirrorPod(n *node.Node, m staticpod.Manifest) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(m.Data, pod); err != nil {
		return nil, fmt.Errorf("reading the simulated manifest of %s: %w", m.Component, err)
	}
	pod.Name += "-" + n.Name
	pod.Spec.NodeName = n.Name
	pod.Status.Phase = corev1.PodRunning
	return pod, nil
}

// leaderLease is the Lease of a component that has a leader.
func leaderLease(n *node.Node, component string, now time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
		Name: component}}
	l.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	l.Spec.HolderIdentity, l.Spec.RenewTime = &n.Name, &metav1.MicroTime{Time: now.UTC()}
	return l
}
