package preview

import (
	"context"
	"path"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/world/simkubelet"
)

// copyFile writes a copy of the file: certificates with their directories, all else to the top
// directory, as upstream's dry runs do.
func (w *World) copyFile(ctx context.Context, c change.WriteFile) error {
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
	if c.Name != "kubelet" || !c.Active || w.isAPIServerMissing(ctx) {
		return nil
	}
	for _, file := range w.kubelet().Files(ctx, w) {
		if err := w.overlay.Do(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// registerNode simulates that the kubelet has registered its Node by the time that something was
// waited for. A real Node comes before it.
func (w *World) registerNode(ctx context.Context) error {
	return w.simulated.Do(ctx, change.ApplyObject{Object: w.kubelet().NodeObject()})
}

func (w *World) kubelet() simkubelet.Kubelet {
	return simkubelet.Kubelet{
		Node: w.paths.Node, BootstrapConfig: w.paths.BootstrapKubeconfig,
		Kubeconfig: w.paths.KubeletKubeconfig, RotatedCert: w.paths.KubeletClientCert,
	}
}

// isAPIServerMissing reports whether the kubelet would request its certificate from the API server
// of this machine before that has its manifest and its etcd, as on a joining control plane.
func (w *World) isAPIServerMissing(ctx context.Context) bool {
	exists := func(file string) bool { _, err := w.Stat(ctx, file); return err == nil }
	return w.paths.APIServerManifest != "" && exists(w.paths.BootstrapKubeconfig) &&
		(!exists(w.paths.APIServerManifest) || !exists(w.paths.EtcdManifest))
}
