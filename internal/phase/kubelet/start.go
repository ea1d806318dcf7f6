// Package kubelet configures and starts the kubelet, and waits for its TLS bootstrap.
package kubelet

import (
	"context"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
)

// Start writes the kubelet's files and starts it on a first control plane.
var Start = engine.Phase{
	Name:  "kubelet-start",
	Short: "Configure and start the kubelet",
	Long:  "Write the environment file and the configuration of the kubelet, then start or restart the kubelet.",
	Flags: []flag.Name{flag.Config, flag.CRISocket, flag.DryRun, flag.ImageRepository,
		flag.NodeAddressFrom, flag.NodeName, flag.Patches},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := awaitFiles(ctx, e, n); err != nil {
			return err
		}
		if err := stopForFailedComponents(ctx, e, n); err != nil {
			return err
		}
		// A running kubelet takes long to replace the Pod of a manifest that was changed
		// (docs/decisions/0044).
		var manifests []string
		components := append(manifest.Components(), manifest.Etcd)
		outdated := health.OutdatedComponents(ctx, e.World, n, components...)
		for _, component := range components {
			file := n.Paths.Manifest(component)
			if slices.Contains(outdated, component) || e.Changed(change.FileTarget(file)) {
				manifests = append(manifests, file)
			}
		}
		// A kubelet that finds no directory of manifests looks for it again only later.
		if err := e.Do(ctx, change.MakeDir{Path: n.Paths.Manifests(), Mode: 0o700}); err != nil {
			return err
		}
		return startKubelet(ctx, e, n, manifests...)
	},
}

// awaitFiles waits for the phases that check or change files which exist already: nothing is started
// before they have found no fault. It waits too for phases that write manifests without a wait for the
// kubelet: a starting kubelet may miss them.
func awaitFiles(ctx context.Context, e *engine.Env, n *node.Node) error {
	before := writersOfManifests(e, n)
	for _, f := range phaseindex.Files(n.Local, n.IsJoining()) {
		isShared := f.Shared && n.IsJoining() // it exists before this phase begins
		if isShared || f.Phase == phaseindex.KubeletStart {
			continue
		}
		if _, err := e.World.Stat(ctx, f.Path); err != nil {
			continue
		}
		if f.Phase == phaseindex.EtcdJoin { // the kubelet starts this member, which needs its certificates
			before = append(before, phaseindex.ControlPlanePrepare.End())
			continue
		}
		before = append(before, f.Created())
	}
	return e.AwaitMilestones(ctx, before...)
}

// writersOfManifests returns the phases that write manifests at once, where no other phase of the run
// waits for the kubelet and has them written then.
func writersOfManifests(e *engine.Env, n *node.Node) []engine.Milestone {
	if n.IsJoining() {
		local, _ := node.HasLocalEtcd(n)
		if local && e.Runs(string(phaseindex.EtcdJoin)) {
			return nil
		}
		return []engine.Milestone{phaseindex.ControlPlanePrepare.End()}
	}
	if e.Runs(string(phaseindex.WaitControlPlane)) {
		return nil
	}
	return []engine.Milestone{phaseindex.Etcd.End(), phaseindex.ControlPlane.End()}
}

// stopForFailedComponents stops the kubelet if components of this control plane have failed in an
// earlier run. Their restart back-off may take five minutes, and starts from zero in a new kubelet.
func stopForFailedComponents(ctx context.Context, e *engine.Env, n *node.Node) error {
	failed := health.FailedComponents(ctx, e.World, n)
	if len(failed) == 0 {
		return nil
	}
	e.Say("restarting the kubelet so that it restarts %s at once", strings.Join(failed, " and "))
	return localkubelet.Stop(ctx, e)
}

// startKubelet writes the kubelet's files and starts it. It writes config.yaml last: without that
// file a kubelet exits at once, so it never runs with only some of the files. A running kubelet
// that is older than one of the files or of reads is restarted.
func startKubelet(ctx context.Context, e *engine.Env, n *node.Node, reads ...string) error {
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	config, warnings, err := manifest.KubeletConfigFile(n, host, patches)
	for _, w := range warnings {
		e.Warn("%s", w)
	}
	if err != nil {
		return err
	}
	files := []change.Change{change.MakeDir{Path: n.Paths.Kubelet, Mode: 0o700}}
	if n.Platform.IsWindows() {
		// The containers of a Pod reach its volumes by the access list of their directory, and most do
		// not run as administrators.
		files = append(files, change.MakeDir{Path: path.Join(n.Paths.Kubelet, "pods"), Mode: 0o777},
			change.MakeDir{Path: path.Dir(n.KubeletClientCertificate()), Mode: 0o700})
	}
	files = append(files,
		change.WriteFile{Path: n.Paths.KubeletFlags(), Data: manifest.KubeletFlags(n), Mode: 0o644},
		change.WriteFile{Path: n.Paths.KubeletInstanceConfig(),
			Data: manifest.KubeletInstanceConfig(n), Mode: 0o644},
		change.WriteFile{Path: n.Paths.KubeletConfig(), Data: config, Mode: 0o644})
	e.Say("writing the kubelet's environment file %q", n.Paths.KubeletFlags())
	e.Say("writing the kubelet's configuration file %q", n.Paths.KubeletConfig())
	if err := e.Do(ctx, files...); err != nil {
		return err
	}
	e.Say("starting the kubelet")
	return localkubelet.Start(ctx, e,
		append(reads, n.Paths.KubeletFlags(), n.Paths.KubeletInstanceConfig(),
			n.Paths.KubeletConfig())...)
}
