package run

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"path"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/world/dryrun"
)

// enterPreview is Begin for a dry run: nothing changes but a directory with copies of the files
// that would be written. The journal is a copy too, so the lock is released.
func (r *Run) enterPreview(ctx context.Context, n *node.Node) error {
	if err := r.unlock(); err != nil {
		return err
	}
	var dir string
	if r.command.Journaled || r.command.Repeatable {
		var err error
		if dir, err = r.createCopyDir(ctx, n.Paths); err != nil {
			return err
		}
		why := ""
		switch {
		case r.command.Name == "join" && n.CertificateKey != "":
			why = "--certificate-key"
		case n.Cluster.Backup != nil:
			why = "--from-backup"
		}
		if why != "" {
			r.Emit(engine.Warned,
				fmt.Sprintf("with %s the copies include the private keys of the cluster's CAs: remove %s once you have looked at it", why, dir))
		}
	}
	if r.past != nil {
		if err := r.openJournal(r.past, n); err != nil {
			return err
		}
	}
	paths := dryrun.Paths{
		Node:                n.Name,
		Certificates:        n.Paths.Certificates,
		KubeletConfig:       n.Paths.KubeletConfig(),
		BootstrapKubeconfig: n.Paths.BootstrapKubeconfig(),
		KubeletKubeconfig:   n.Paths.KubeletKubeconfig(),
		KubeletClientCert:   n.KubeletClientCertificate(),
	}
	if n.Role == node.ControlPlane {
		paths.APIServerManifest, paths.EtcdManifest = n.Paths.Manifest(release.APIServer),
			n.Paths.Manifest(manifest.Etcd)
	}
	r.world = dryrun.New(r.world, dir, paths)
	return nil
}

// createCopyDir creates the directory for copies, or takes the one that the environment names.
func (r *Run) createCopyDir(ctx context.Context, paths node.Paths) (string, error) {
	variable := "KUBEADM_" + strings.ReplaceAll(strings.ToUpper(r.Name()), "-", "_") + "_DRYRUN_DIR"
	dir, _ := r.host.Getenv(variable)
	if dir == "" {
		suffix := make([]byte, 4)
		if _, err := io.ReadFull(r.host.Random("dry-run"), suffix); err != nil {
			return "", fmt.Errorf("choosing a directory name: %w", err)
		}
		dir = path.Join(paths.Tmp(),
			"kubeadm-"+strings.ReplaceAll(r.command.Name, " ", "-")+"-dryrun"+new(big.Int).SetBytes(suffix).String())
	}
	// The only change that a dry run makes by itself. It is no event of the dry run, which shows
	// what would be changed.
	e := engine.New(engine.Env{World: r.host.World, Emit: func(engine.Event) {}})
	if err := e.Do(ctx, change.MakeDir{Path: dir, Mode: 0o700}); err != nil {
		return "", problem.During("creating a directory for copies of the files", err,
			"set the environment variable "+variable+" to another directory")
	}
	r.Emit(engine.Warned,
		fmt.Sprintf("copies of the files that would be written are kept in %s; set %s to use another directory", dir, variable))
	return dir, nil
}
