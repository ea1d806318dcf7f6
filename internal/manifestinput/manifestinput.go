// Package manifestinput reads what manifests need from this machine besides the configuration:
// facts about the host, and the user's patches. It changes nothing.
package manifestinput

import (
	"context"
	"errors"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Read returns the host facts and patches. It calls warn for each patch file that is skipped.
func Read(ctx context.Context, r state.Reader, n *node.Node,
	warn func(format string, args ...any)) (h manifest.Host, p manifest.Patches, err error) {
	if h, err = ReadHost(ctx, r, n); err != nil {
		return h, p, err
	}
	p, notes, err := ReadPatches(ctx, r, n.Patches)
	for _, note := range notes {
		warn("%s", note)
	}
	return h, p, err
}

// ReadHost returns the facts about this machine. Members is not set: it is known only when this
// machine joins an etcd cluster.
func ReadHost(ctx context.Context, r state.Reader, n *node.Node) (h manifest.Host, err error) {
	for _, dir := range manifest.CADirs() {
		found, err := state.Exists(ctx, r, dir)
		if err != nil {
			return h, err
		}
		if found {
			h.CADirs = append(h.CADirs, dir)
		}
	}
	info, err := r.Host(ctx)
	if err != nil {
		return h, err
	}
	h.Env = info.Env
	if h.ExternalCA, err = certstore.HasExternalClusterCA(ctx, r, n.Paths); err != nil {
		return h, err
	}
	if manifest.IsRootless(n) {
		if h.Accounts, err = change.ReadAccounts(ctx, r,
			manifest.SystemAccounts().Dir); err != nil {
			return h, err
		}
	}
	resolved, err := r.Service(ctx, "systemd-resolved")
	if errors.Is(err, state.ErrNoInitSystem) {
		err = nil
	}
	h.SystemdResolved = resolved.Active
	return h, err
}
