// Package etcd runs this control plane's member of the etcd cluster.
package etcd

import (
	"context"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// Phase creates an etcd cluster of one member.
var Phase = engine.Phase{
	Name:  "etcd",
	Short: "Write the static Pod manifest for a local etcd member",
	Long:  "Write the static Pod manifest for an etcd member on this machine.",
	Phases: []engine.Phase{{
		Name:  "local",
		Short: "Write the static Pod manifest for a local, single-member etcd",
		Flags: []flag.Name{flag.CertDir, flag.Config, flag.DryRun, flag.ImageRepository,
			flag.Patches},
		UsesAddress: true,
		When:        node.HasLocalEtcd,
		Run:         createEtcd,
	}},
}

func createEtcd(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	if err := staticpod.CheckPatches(ctx, e, n, manifest.Etcd); err != nil {
		return err
	}
	e.Say("creating the static Pod manifest for a local etcd in %q", n.Paths.Manifests())
	if err := e.Do(ctx, change.MakeDir{Path: n.Cluster.Etcd.DataDir, Mode: 0o700}); err != nil {
		return err
	}
	members, err := staticpod.JoinedMembers(ctx, e, n)
	if err != nil {
		return err
	}
	if members == nil && n.Cluster.Backup != nil { // etcd without the restored data must not start empty
		members = []state.Member{{Name: n.Name, PeerURLs: []string{n.PeerURL()}}}
	}
	write := func(ctx context.Context, e *engine.Env) error {
		return staticpod.Write(ctx, e, n, manifest.Etcd, members)
	}
	exists, err := state.Exists(ctx, e.World, n.Paths.Manifest(manifest.Etcd))
	if err != nil {
		return err
	}
	if exists {
		return write(ctx, e)
	}
	return e.Defer(ctx, phaseindex.StartEtcd, write)
}
