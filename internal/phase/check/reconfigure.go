package check

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/release"
	"kubeadm/internal/renewal"
	"kubeadm/internal/rotation"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/upgrade"
)

// drained is the name of the check whether a kubelet can change what its running Pods depend on.
const drained = "NodeDrained"

// Reconfigure checks whether this node can follow a change of the cluster's configuration, asks the user
// to confirm, and pulls the images.
var Reconfigure = engine.Phase{
	Name:  "preflight",
	Short: "Check the cluster and this machine, and pull images",
	Flags: []flag.Name{flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Patches, flag.Yes},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		e.Say("checking this machine")
		downloaded, err := findDownloaded(n)
		if err != nil {
			return err
		}
		if err := checkMachine(ctx, e, n, preflight.Reconfigure(n, downloaded)); err != nil {
			return err
		}
		if reconfiguration.IntentOf(e).OnlyEndpoint {
			return nil
		}
		if err := checkDrained(ctx, e, as, n); err != nil {
			return err
		}
		if err := checkKubeletFile(ctx, e, n); err != nil {
			return err
		}
		if n.Role != node.ControlPlane {
			return nil
		}
		if err := checkReconfiguredPlane(ctx, e, n); err != nil {
			return err
		}
		if err := checkArgumentFiles(ctx, e, n, as); err != nil {
			return err
		}
		if ask := reconfiguration.IntentOf(e).Ask; ask != nil {
			if err := ask(ctx); err != nil {
				return err
			}
		}
		return pullImages(ctx, e, n)
	},
}

// findDownloaded returns the files that this node downloads once it was checked.
func findDownloaded(n *node.Node) ([]preflight.ArgumentFile, error) {
	if !reconfiguration.Downloads(n) {
		return nil, nil
	}
	return preflight.UploadedFiles(n)
}

// Unchanging checks that nothing else is changing the cluster: no CA rotation, no upgrade, no control plane node that gets
// another address or name. It is checked
// again once this node holds the lock of the cluster.
var Unchanging = engine.Phase{
	Name: "preflight",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil || n.Role != node.ControlPlane {
			return err
		}
		if err := checkNodeChanges(ctx, e, as); err != nil {
			return err
		}
		r, err := rotation.Read(ctx, e.Reader(), as)
		if err != nil {
			return err
		}
		if r != nil && !r.Completed {
			return problem.New(fmt.Errorf("a CA rotation is in progress, in stage %q", r.Stage),
				"complete it first: kubeadm certs rotate-ca status")
		}
		cluster, err := readCluster(ctx, e, as, upgrade.ReadControlPlane)
		if err != nil {
			return err
		}
		target, err := release.ParseTarget(n.Cluster.Version)
		if err != nil {
			return err
		}
		for _, server := range cluster.ControlPlane[release.APIServer] {
			if v, found := cluster.APIServerOf(server.Node); found && !v.EqualTo(target.Version()) {
				return problem.New(fmt.Errorf("an upgrade is in progress: the API server of node %s runs %s, "+
					"but the cluster stores %s", untrusted.Line(server.Node), untrusted.Line(server.Version), target),
					cluster.CompletionHints(v, target.Version())...)
			}
		}
		return nil
	},
}

// checkDrained is an error if the kubelet's CPU or memory manager, or its cgroups, change while the node
// runs Pods other than static ones and those of DaemonSets.
func checkDrained(ctx context.Context, e *engine.Env, as state.Identity, n *node.Node) error {
	now, err := reconfiguration.ReadKubelet(ctx, e.World, n)
	if err != nil {
		return err
	}
	data, err := kubeletfile.RenderConfig(ctx, e, n)
	if err != nil {
		return err
	}
	wanted := &kubeletconfig.KubeletConfiguration{}
	if err := yaml.Unmarshal(data, wanted); err != nil {
		return err
	}
	fields := reconfiguration.DrainedFields(now, wanted)
	if len(fields) == 0 || e.Local.IgnoredChecks.Has(drained) {
		return nil
	}
	all, err := e.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: as,
		FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return fmt.Errorf("looking for the Pods of this node: %w", err)
	}
	running := 0
	for _, u := range all {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
			return untrusted.Error(err)
		}
		owner := metav1.GetControllerOf(&pod)
		isKept := owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
		if !isKept && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			running++
		}
	}
	if running == 0 {
		return nil
	}
	return problem.New(fmt.Errorf("the kubelet cannot change %s while the node runs Pods: there are %d besides "+
		"static Pods and DaemonSets", strings.Join(fields, ", "), running),
		untrusted.CommandHint("drain the node", "kubectl drain --ignore-daemonsets", n.Name),
		"to change it all the same, add --ignore-preflight-errors="+drained)
}

// checkReconfiguredPlane checks the cluster, and what the change needs of this control plane node.
func checkReconfiguredPlane(ctx context.Context, e *engine.Env, n *node.Node) error {
	before := reconfiguration.IntentOf(e).Before
	if err := Unchanging.Run(ctx, e); err != nil {
		return err
	}
	e.Say("checking the cluster")
	checks := append(preflight.EtcdRestart(n), upgrade.StaticPodManifests(n.Paths, staticpod.Components(n)))
	if err := runChecks(ctx, e, checks); err != nil {
		return err
	}
	changes, err := reconfiguration.FindSANChanges(ctx, e, before, n)
	if err != nil {
		return err
	}
	for _, c := range changes {
		issuer, _ := pki.ProfileOf(c.Certificate.Issuer)
		external, err := certstore.IsExternalCA(ctx, e.World, n.Paths, issuer)
		if err == nil && external && c.Adds {
			err = renewal.NewForeignCAError(n.Paths, c.Certificate, c.SANs)
		}
		if err != nil {
			return err
		}
	}
	for _, component := range staticpod.Components(n) {
		_, found, err := staticpod.FindManualChange(ctx, e, before, n, component)
		if err != nil {
			return err
		}
		if found != nil {
			warnOfManualChange(e, n.Paths.Manifest(component))
		}
	}
	return nil
}

// checkArgumentFiles checks that the files that arguments name can be downloaded, if they are, and warns about others
// that are not as they were where the change was begun.
func checkArgumentFiles(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) (err error) {
	var uploaded map[string]bool
	if reconfiguration.Downloads(n) {
		uploaded, err = sharedcerts.CheckDownload(ctx, e, n, reconfiguration.FilesDownload(as))
		if err != nil {
			return err
		}
	}
	begun := reconfiguration.IntentOf(e).Change
	others := slices.DeleteFunc(slices.Clone(begun.Files), func(f preflight.ArgumentFile) bool { return uploaded[f.Path] })
	return runChecks(ctx, e, []preflight.Check{preflight.SameArgumentFiles(n, untrusted.Line(begun.Node), others)})
}

// checkKubeletFile warns if the configuration file of the kubelet was changed manually.
func checkKubeletFile(ctx context.Context, e *engine.Env, n *node.Node) error {
	file := n.Paths.KubeletConfig()
	onDisk, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return err
	}
	for _, with := range []*node.Node{n, reconfiguration.IntentOf(e).Before} {
		rendered, err := kubeletfile.RenderConfig(ctx, e, with)
		if err != nil || bytes.Equal(rendered, onDisk) {
			return err
		}
	}
	warnOfManualChange(e, file)
	return nil
}

func warnOfManualChange(e *engine.Env, file string) {
	e.Warn("%s is not as kubeadm writes it, before or after the change: it was changed manually, or with --patches, "+
		"which must be set again; it is replaced, and a backup is kept in %s", file, e.Local.Paths.Tmp())
}
