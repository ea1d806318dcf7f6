// Package bootstraptoken creates what machines need to join: tokens, their rights and the
// ConfigMap cluster-info.
package bootstraptoken

import (
	"context"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/state"
)

// Phase creates the tokens, their rights and the ConfigMap cluster-info.
var Phase = engine.Phase{
	Name:    "bootstrap-token",
	Aliases: []string{"bootstraptoken"},
	Short:   "Create bootstrap tokens and the RBAC rules that let nodes join",
	Long: "Create the bootstrap tokens, the RBAC rules that allow a node with a token to request its " +
		"client certificate, and the public ConfigMap cluster-info.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.Kubeconfig, flag.SkipTokenPrint},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		info, err := newClusterInfo(ctx, e, n, as)
		if err != nil {
			return err
		}
		var objects []state.Object
		for _, t := range n.Tokens {
			objects = append(objects, manifest.NewTokenSecret(t, e.World.Now()))
			shown := t.String()
			if e.Withhold.Token {
				shown = engine.Withheld
			}
			e.Result("using token: %s", shown)
		}
		objects = append(objects, manifest.BootstrapRBAC()...)
		e.Say("creating RBAC rules that allow tokens to get certificates for nodes, and nodes to rotate them")
		e.Say("creating the ConfigMap %q in namespace %q", "cluster-info", "kube-public")
		return e.DoAll(ctx, append(change.ApplyAll(as, objects...),
			newClusterInfoChange(info, as))...)
	},
}

// Upgrade creates the RBAC rules that the new version needs. Tokens and cluster-info stay as they
// are.
var Upgrade = engine.Phase{
	Name:  Phase.Name,
	Short: "Create the RBAC rules that let nodes join",
	Long:  "Create or update the RBAC rules that allow a node with a token to request its client certificate.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *engine.Env) error {
		as, err := e.Admin(ctx)
		if err != nil {
			return err
		}
		e.Say("creating RBAC rules that allow tokens to get certificates for nodes, and nodes to rotate them")
		return e.DoAll(ctx, change.ApplyAll(as, manifest.BootstrapRBAC()...)...)
	},
}
