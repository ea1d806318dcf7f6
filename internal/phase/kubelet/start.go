// Package kubelet configures and starts the kubelet, and waits for its TLS bootstrap.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// service is the name of the kubelet's service.
const service = "kubelet"

// Start writes the kubelet's files and starts it on a first control plane.
var Start = engine.Phase{
	Name:  "kubelet-start",
	Short: "Configure and start the kubelet",
	Long:  "Write the environment file and the configuration of the kubelet, then start or restart the kubelet.",
	Flags: []flag.Name{flag.Config, flag.CRISocket, flag.DryRun, flag.ImageRepository,
		flag.NodeName, flag.Patches},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := stopForFailedComponents(ctx, e, n); err != nil {
			return err
		}
		// Before its Node exists a running kubelet may miss a changed manifest. Those of
		// kube-controller-manager and kube-scheduler count only if this run changed them, as they
		// are written while the kubelet runs.
		manifests := []string{n.Paths.Manifest(release.APIServer), n.Paths.Manifest(manifest.Etcd)}
		for _, late := range []string{release.ControllerManager, release.Scheduler} {
			if file := n.Paths.Manifest(late); e.Changed(change.FileTarget(file)) {
				manifests = append(manifests, file)
			}
		}
		return startKubelet(ctx, e, n, manifests...)
	},
}

// stopForFailedComponents stops the kubelet if components of this control plane have failed in an
// earlier run. Their restart back-off may take five minutes, and starts from zero in a new kubelet.
func stopForFailedComponents(ctx context.Context, e *engine.Env, n *node.Node) error {
	failed := health.FailedComponents(ctx, e.World, n)
	if len(failed) == 0 {
		return nil
	}
	e.Say("restarting the kubelet, so that it restarts %s at once", strings.Join(failed, " and "))
	return stopService(ctx, e)
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
	files := []change.Change{
		change.MakeDir{Path: n.Paths.Kubelet, Mode: 0o700},
		change.WriteFile{Path: n.Paths.KubeletFlags(), Data: manifest.KubeletFlags(n), Mode: 0o644},
		change.WriteFile{Path: n.Paths.KubeletInstanceConfig(),
			Data: manifest.KubeletInstanceConfig(n), Mode: 0o644},
		change.WriteFile{Path: n.Paths.KubeletConfig(), Data: config, Mode: 0o644},
	}
	e.Say("writing the kubelet's environment file %q", n.Paths.KubeletFlags())
	e.Say("writing the kubelet's configuration file %q", n.Paths.KubeletConfig())
	if err := e.Do(ctx, files...); err != nil {
		return err
	}
	e.Say("starting the kubelet")
	return startService(ctx, e,
		append(reads, n.Paths.KubeletFlags(), n.Paths.KubeletInstanceConfig(),
			n.Paths.KubeletConfig())...)
}

// startService starts the kubelet's service.
func startService(ctx context.Context, e *engine.Env, reads ...string) error {
	if managed, err := isManaged(ctx, e, "start"); err != nil || !managed {
		return err
	}
	return e.Do(ctx, change.SetService{Name: service, Active: true, Reads: reads})
}

// stopService stops the kubelet's service, which is to be started again.
func stopService(ctx context.Context, e *engine.Env) error {
	if managed, err := isManaged(ctx, e, "stop"); err != nil || !managed {
		return err
	}
	return e.Do(ctx, change.SetService{Name: service})
}

// isManaged reports whether the init system has the kubelet's service. Without it the user runs the
// kubelet by other means, and is told what to do; a later phase waits for the result.
func isManaged(ctx context.Context, e *engine.Env, verb string) (bool, error) {
	s, err := e.World.Service(ctx, service)
	switch {
	case err == nil && s.Exists:
		return true, nil
	case err == nil:
		err = fmt.Errorf("the init system has no service %q", service)
	case !errors.Is(err, state.ErrNoInitSystem):
		return false, err
	}
	e.Warn("%s the kubelet manually: %v", verb, err)
	return false, nil
}
