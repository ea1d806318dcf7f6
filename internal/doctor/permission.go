package doctor

import (
	"context"
	"path"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkPermissions checks that no user but the owner's group can read private keys and kubeconfigs.
func checkPermissions(ctx context.Context, r state.Reader, rep *preflight.Report,
	l node.Local) {
	paths := l.Paths
	for _, dir := range []string{paths.Kubernetes, paths.Certificates, path.Join(paths.Certificates, "etcd"),
		path.Join(paths.Kubelet, "pki")} {
		files, err := r.ReadDir(ctx, dir)
		if err != nil {
			continue // other checks report files that are missing
		}
		for _, f := range files {
			isSecret := path.Ext(f.Path) == ".key" || path.Ext(f.Path) == ".conf" ||
				dir == path.Join(paths.Kubelet, "pki") && path.Ext(f.Path) == ".pem"
			const others = 0o007
			if isSecret && f.Mode.IsRegular() && f.Mode.Perm()&others != 0 {
				rep.Add(preflight.Finding{Severity: preflight.Error,
					Text:     f.Path + " can be read or written by every user of this machine",
					Evidence: "its mode is " + f.Mode.String(),
					Remedy:   "remove access for other users", Command: untrusted.Command(l.Platform.PrivateCommand(), f.Path)})
			}
		}
	}
}
