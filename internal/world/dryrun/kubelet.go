package dryrun

import (
	"context"

	"kubeadm/internal/change"
)

// startKubelet simulates a kubelet that is started, unless its API server would not answer yet.
func (w *World) startKubelet(ctx context.Context, c change.SetService) error {
	if c.Name != "kubelet" || !c.Active {
		return nil
	}
	exists := func(file string) bool { _, err := w.Stat(ctx, file); return err == nil }
	// A joining control plane requests its certificate from the API server of this machine, which
	// needs its manifest and its etcd.
	if w.paths.APIServerManifest != "" && exists(w.paths.BootstrapKubeconfig) &&
		(!exists(w.paths.APIServerManifest) || !exists(w.paths.EtcdManifest)) {
		return nil
	}
	for _, file := range w.kubelet.Files(ctx, w) {
		if err := w.overlay.Do(ctx, file); err != nil {
			return err
		}
	}
	return nil
}
