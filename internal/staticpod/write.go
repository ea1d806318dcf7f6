// Package staticpod writes, compares and replaces the static Pod manifests of control plane components. It keeps the
// backups and the snapshot of etcd that a replacement is undone with.
package staticpod

import (
	"context"
	"errors"
	"io/fs"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Write writes the manifest of a component, with the user's patches applied. In a rootless
// control plane it first creates the component's user and sets the owner of its files. Members
// are those of the etcd cluster that is joined; nil for a new cluster.
func Write(ctx context.Context, e *engine.Env, n *node.Node, component string,
	members []state.Member) error {
	if err := e.Do(ctx, manifest.AccountChanges(n)...); err != nil {
		return err
	}
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	host.Members = members
	data, err := manifest.StaticPodFile(component, n, host, patches)
	if err != nil {
		return err
	}
	if err := setOwners(ctx, e, n, component, host); err != nil {
		return err
	}
	return e.Do(ctx,
		change.MakeDir{Path: n.Paths.Manifests(), Mode: 0o700},
		change.WriteFile{Path: n.Paths.Manifest(component), Data: data, Mode: 0o600})
}

// SetOwners gives a component of a rootless control plane the files that only it uses, such as
// renewed keys. The user of the component must exist.
func SetOwners(ctx context.Context, e *engine.Env, n *node.Node, component string) error {
	host, err := manifestinput.ReadHost(ctx, e.World, n)
	if err != nil {
		return err
	}
	return setOwners(ctx, e, n, component, host)
}

func setOwners(ctx context.Context, e *engine.Env, n *node.Node, component string,
	host manifest.Host) error {
	owners, err := manifest.OwnerChanges(component, n, host)
	if err != nil {
		return err
	}
	err = e.Do(ctx, owners...)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	hint := "run these phases first: kubeadm init phase certs all; kubeadm init phase kubeconfig all"
	if n.IsJoining() {
		hint = "run these phases first: kubeadm join phase control-plane-prepare certs; kubeadm join phase control-plane-prepare kubeconfig"
	}
	return problem.During("setting the owner of the files of "+component, err, hint)
}

// CheckPatches returns an error if the user's patches of a component do not apply, or result in a
// Pod that cannot work. Call it before the first change of a phase that ends in Write.
func CheckPatches(ctx context.Context, e *engine.Env, n *node.Node, component string) error {
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	return patches.CheckPod(component, n, host)
}
