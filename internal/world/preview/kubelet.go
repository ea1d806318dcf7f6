package preview

import (
	"context"
	"path"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/world/simkubelet"
)

// keep leaves a copy of the file for the user to look at: certificates as the tree
// they are, all else side by side, as kubeadm's dry runs always did.
func (w *World) keep(ctx context.Context, c change.WriteFile) error {
	w.forgetRemoval(c.Path)
	if w.dir == "" {
		return nil
	}
	to := path.Join(w.dir, path.Base(c.Path))
	if rest, ok := strings.CutPrefix(c.Path, w.paths.Certificates+"/"); ok {
		to = path.Join(w.dir, rest)
	}
	c.Path = to
	return w.World.Do(ctx, c)
}

// startKubelet simulates a kubelet that is started, unless its API server would not answer yet.
func (w *World) startKubelet(ctx context.Context, c change.SetService) error {
	if c.Name != "kubelet" || !c.Active || w.asksTooEarly(ctx) {
		return nil
	}
	for _, file := range w.kubelet().Files(ctx, w) {
		if err := w.over.Do(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// registerNode simulates that the kubelet has registered its Node by the time that something was waited for. A
// real Node comes before it.
func (w *World) registerNode(ctx context.Context) error {
	return w.believed.Do(ctx, change.ApplyObject{Object: w.kubelet().NodeObject()})
}

func (w *World) kubelet() simkubelet.Kubelet {
	return simkubelet.Kubelet{
		Node: w.paths.Node, BootstrapConfig: w.paths.BootstrapConfig,
		Kubeconfig: w.paths.KubeletKubeconfig, RotatedCert: w.paths.RotatedCert,
	}
}

// asksTooEarly reports whether the kubelet would ask the API server beside it for a certificate while that one still
// is not there or lacks its etcd, as on a machine that is to become one more control plane.
func (w *World) asksTooEarly(ctx context.Context) bool {
	exists := func(file string) bool { _, err := w.Stat(ctx, file); return err == nil }
	return w.paths.OwnServer != "" && exists(w.paths.BootstrapConfig) && (!exists(w.paths.OwnServer) || !exists(w.paths.OwnEtcd))
}
