package preflight

import (
	"context"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// obstacles are the checks of arguments, volumes and addresses with which a component of this
// control plane would not run. The files and certificates of such a configuration can be made, so
// only commands that start components ask them.
func obstacles(n *node.Node) (list []Check) {
	find := fact[[]manifest.Obstacle](
		func(ctx context.Context, r state.Reader) ([]manifest.Obstacle, error) {
			var host manifest.Host
			for _, dir := range manifest.CADirs() {
				if _, err := r.Stat(ctx, dir); err == nil {
					host.CADirs = append(host.CADirs, dir)
				}
			}
			return manifest.Obstacles(n, host)
		}).once()
	run := func(ctx context.Context, r state.Reader, rep *Report) {
		// Whatever keeps the Pods from being built has a check of its own.
		if found, err := find(ctx, r); err == nil {
			rep.obstacles(found)
		}
	}
	for _, name := range []string{
		manifest.ComponentArgs, manifest.ComponentVolumes, manifest.IPFamilies,
	} {
		list = append(list, Check{Name: name, Run: run})
	}
	return list
}

// kubeletArgs asks whether the kubelet that is installed runs with the user's arguments.
func kubeletArgs(l *node.Local, kubelet fact[*version.Version]) Check {
	run := func(ctx context.Context, r state.Reader, rep *Report) {
		if v, err := kubelet(ctx, r); err == nil { // KubeletVersion reports the error
			rep.obstacles(manifest.KubeletObstacles(l.KubeletArgs, v))
		}
	}
	return Check{Name: manifest.ComponentArgs, Run: run}
}

// obstacles notes those that are the check's own.
func (r *Report) obstacles(list []manifest.Obstacle) {
	for _, o := range list {
		switch {
		case o.Check != r.check:
		case o.Fatal:
			r.Fail(o.Remedy, "%s: %s", o.Field, o.Text)
		default:
			r.Warn(o.Remedy, "%s: %s", o.Field, o.Text)
		}
	}
}
