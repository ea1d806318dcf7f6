package check

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/reconfiguration"
)

// KeepNodeName checks that nothing else has begun to replace the files of the kubelet. A rotation of the CAs or an
// upgrade that other nodes have not followed is no obstacle: they need a kubelet that works.
var KeepNodeName = engine.Phase{
	Name:  "preflight",
	Short: "Check this machine",
	Flags: []flag.Name{flag.DryRun, flag.Kubeconfig},
	Run: func(ctx context.Context, e *engine.Env) error {
		return reconfiguration.CheckNone(ctx, e.World, e.Local.Paths)
	},
}
