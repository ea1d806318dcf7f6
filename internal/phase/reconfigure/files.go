package reconfigure

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/sharedcerts"
)

// DownloadFiles writes the files that arguments of components name as another control plane node has uploaded
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
