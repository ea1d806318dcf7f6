package check

import (
	"context"
	"fmt"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/nodename"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/renewal"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
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

// ChangeNodeName checks whether this node can get another name, and asks the user to confirm.
var ChangeNodeName = engine.Phase{
	Name:  "preflight",
	Short: "Check the cluster and this machine",
	Flags: []flag.Name{flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Yes},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := nothingElse(ctx, e); err != nil {
			return err
		}
		if n.Role == node.ControlPlane {
			if err := checkNameIssuers(ctx, e, n); err != nil {
				return err
			}
		}
		if ask := nodename.RenameOf(e).Ask; ask != nil {
			return ask(ctx)
		}
		return nil
	},
}

// NothingElse checks that nothing else is changing this node or the cluster. It is checked again once this node holds the
// lock of the cluster.
var NothingElse = engine.Phase{Name: "preflight", Run: nothingElse}

func nothingElse(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := reconfiguration.CheckNone(ctx, e.World, n.Paths); err != nil {
		return err
	}
	resumed, err := nodename.ReadRename(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	if resumed != nil { // what has begun since waits for this change
		return checkOwnParts(ctx, e, n, as)
	}
	found, err := reconfiguration.Read(ctx, e.Reader(), as)
	if err != nil {
		return err
	}
	if found != nil && found.Stored == nil {
		return problem.New(fmt.Errorf("a change of the configuration was begun on node %s, and is not complete",
			untrusted.Line(found.Node)), "look at it: kubeadm reconfigure status")
	}
	if n.Role != node.ControlPlane { // Unchanging checks it on a control plane node
		r, err := rotation.Read(ctx, e.Reader(), as)
		if err == nil && r != nil && !r.Completed {
			err = problem.New(fmt.Errorf("a CA rotation is in progress, in stage %q", r.Stage),
				"complete it first: kubeadm certs rotate-ca status")
		}
		return err
	}
	if err := checkOwnParts(ctx, e, n, as); err != nil {
		return err
	}
	return Unchanging.Run(ctx, e)
}

// checkOwnParts is an error if another change of this control plane node, or of another one's address or name, is not complete.
func checkOwnParts(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) error {
	if n.Role != node.ControlPlane {
		return nil
	}
	if err := etcddata.CheckNone(ctx, e.World, n.Paths); err != nil {
		return err
	}
	record, err := nodeaddress.ReadRecord(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	if record.To != "" && record.To != n.Address {
		return problem.New(fmt.Errorf("the move of this node to %s is not complete", untrusted.Line(record.To)),
			untrusted.CommandHint("complete it", "kubeadm address change", record.To))
	}
	return checkNodeChanges(ctx, e, as)
}

// checkNameIssuers is an error if this machine cannot issue the serving certificates that have the name of the node.
func checkNameIssuers(ctx context.Context, e *engine.Env, n *node.Node) error {
	to, _ := pki.ParseSANs([]string{n.Name})
	for _, c := range nodeaddress.ServingCertificates(n) {
		cert, err := certstore.ReadRenewable(ctx, e.World, n.Paths, c)
		if err != nil {
			return err
		}
		if cert == nil {
			return fmt.Errorf("%s does not exist", n.Paths.Cert(c.Base))
		}
		issuer, _ := pki.ProfileOf(c.Issuer)
		external, err := certstore.IsExternalCA(ctx, e.World, n.Paths, issuer)
		if err != nil {
			return err
		}
		if external && cert.VerifyHostname(n.Name) != nil {
			return renewal.NewForeignCAError(n.Paths, c, pki.SANsOf(cert).Plus(to))
		}
	}
	return nil
}
