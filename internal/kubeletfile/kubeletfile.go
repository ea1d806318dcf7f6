// Package kubeletfile writes the configuration files of this machine's kubelet again, and keeps what they
// replace.
package kubeletfile

import (
	"bytes"
	"context"
	"path"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// RenderConfig returns the configuration file of this machine's kubelet: what the cluster stores, the
// user's patches and the instance configuration.
func RenderConfig(ctx context.Context, e *engine.Env, n *node.Node) ([]byte, error) {
	instance, err := state.ReadOptional(ctx, e.World, n.Paths.KubeletInstanceConfig())
	if err != nil {
		return nil, err
	}
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return nil, err
	}
	host.KubeletInstance = instance
	data, warnings, err := manifest.KubeletConfigFile(n, host, patches)
	for _, w := range warnings {
		e.WarnOnce("%s", w)
	}
	if err != nil {
		return nil, problem.New(err, "correct "+n.Paths.KubeletInstanceConfig()+
			", or the patches of the kubelet's configuration")
	}
	return data, nil
}

// WriteMissingInstance writes the instance configuration of this machine's kubelet if it does not exist, as after
// a join with kubeadm before 1.34.
func WriteMissingInstance(ctx context.Context, e *engine.Env, n *node.Node) error {
	file := n.Paths.KubeletInstanceConfig()
	exists, err := state.Exists(ctx, e.World, file)
	if err != nil || exists {
		return err
	}
	e.Warn("%s does not exist; writing it with the container runtime %s", file, n.CRISocket)
	return e.Do(ctx, change.WriteFile{Path: file, Data: manifest.KubeletInstanceConfig(n), Mode: 0o644})
}

// Replace writes a file of the kubelet, and keeps what it replaces in a backup directory of that kind.
func Replace(ctx context.Context, e *engine.Env, file string, data []byte, kind staticpod.BackupKind) error {
	old, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return err
	}
	e.Say("writing %q", file)
	wanted := change.WriteFile{Path: file, Data: data, Mode: 0o644}
	if bytes.Equal(old, data) {
		return e.Do(ctx, wanted)
	}
	tmp := e.Local.Paths.Tmp()
	dir, err := staticpod.BackupDir(ctx, e, tmp, kind)
	if err != nil {
		return err
	}
	if err := e.Do(ctx, change.MakeDir{Path: dir, Mode: 0o700},
		change.WriteFile{Path: path.Join(dir, path.Base(file)), Data: old, Mode: 0o600},
		wanted); err != nil {
		return err
	}
	return staticpod.PruneBackups(ctx, e, tmp, kind, mostBackups)
}

// Remove removes a file of the kubelet, if it exists, and keeps it in a backup directory of that kind.
func Remove(ctx context.Context, e *engine.Env, file string, kind staticpod.BackupKind) error {
	old, err := state.ReadOptional(ctx, e.World, file)
	if err != nil || old == nil {
		return err
	}
	tmp := e.Local.Paths.Tmp()
	dir, err := staticpod.BackupDir(ctx, e, tmp, kind)
	if err != nil {
		return err
	}
	if err := e.Do(ctx, change.MakeDir{Path: dir, Mode: 0o700},
		change.WriteFile{Path: path.Join(dir, path.Base(file)), Data: old, Mode: 0o600, Secret: true},
		change.Remove{Path: file}); err != nil {
		return err
	}
	return staticpod.PruneBackups(ctx, e, tmp, kind, mostBackups)
}

// mostBackups is how many backups of each file are kept.
const mostBackups = 10
