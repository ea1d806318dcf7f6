package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// isMachineReset reports whether nothing is left of the manifests, kubeconfigs and kubelet configuration
// of a finished run. Then another program has reset the machine: our `kubeadm reset` removes the
// journal as well, upstream's does not. Certificates do not count, since a reset may leave those
// in a directory of the user.
func isMachineReset(ctx context.Context, r state.Reader, p node.Paths,
	recorded func(target string) bool) (bool, error) {
	paths := []string{p.KubeletKubeconfig(), p.KubeletConfig()}
	for _, component := range []string{manifest.Etcd, release.APIServer, release.ControllerManager,
		release.Scheduler} {
		paths = append(paths, p.Manifest(component))
	}
	for _, k := range pki.KubeconfigProfiles() {
		paths = append(paths, p.Kubeconfig(k.File))
	}
	known := false
	for _, path := range paths {
		_, err := r.Stat(ctx, path)
		if err == nil {
			return false, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("checking the files of a finished run: %w", err)
		}
		known = known || recorded(change.FileTarget(path))
	}
	if !known {
		return false, nil
	}
	// The journal is below this directory: if it cannot be read, the answers above mean nothing.
	if _, err := r.ReadDir(ctx, p.Kubernetes); err != nil {
		return false, fmt.Errorf("checking the files of a finished run: %w", err)
	}
	return true, nil
}
