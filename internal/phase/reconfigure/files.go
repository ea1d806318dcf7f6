package reconfigure

import (
	"context"
	"errors"
	"io/fs"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// DownloadFiles writes the files referenced by component arguments as another control plane node has uploaded
// them.
var DownloadFiles = engine.Phase{
	Name:  "download-files",
	Short: "Download the files that arguments name",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil || !reconfiguration.Downloads(n) {
			return err
		}
		return sharedcerts.DownloadFiles(ctx, e, n, reconfiguration.FilesDownload(as))
	},
}

// warnOfReaders names the components that were started before a file that they read only then was written, if the user
// uploads or downloads such files.
func (m *machine) warnOfReaders(ctx context.Context, e *engine.Env) error {
	if m.Role != node.ControlPlane || m.CertificateKey == "" {
		return nil
	}
	files, err := preflight.UploadedFiles(m.Node)
	if err != nil || len(files) == 0 {
		return err
	}
	containers, err := e.World.Containers(ctx, m.CRISocket)
	if err != nil {
		e.Warn("whether components have to be restarted for the files that their arguments name is not known: %v", err)
		return nil
	}
	for _, f := range files {
		info, err := e.World.Stat(ctx, f.Path)
		if errors.Is(err, fs.ErrNotExist) || f.IsReread {
			continue
		}
		if err != nil {
			return err
		}
		var newest state.Container
		for _, c := range containers { // oldest first
			if c.Component == f.Component() && c.Name == f.Component() { // not a sidecar
				newest = c
			}
		}
		if newest.Running && !newest.Created.After(info.ModTime) {
			e.Warn("%s uses the previous %s (%s), because it was started before the file was written; restart it: move %s "+
				"out of its directory until the Pod has stopped, and back", f.Component(), untrusted.Line(f.Path), untrusted.Line(f.Argument),
				m.Paths.Manifest(f.Component()))
		}
	}
	return nil
}
