package check

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/nodename"
	"kubeadm/internal/pki"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/renewal"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// Address checks whether this node can get another address, and asks the user to confirm.
var Address = engine.Phase{
	Name:  "preflight",
	Short: "Check the cluster and this machine",
	Flags: []flag.Name{flag.DryRun, flag.Kubeconfig, flag.Yes},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		intent := nodeaddress.IntentOf(e)
		if err := nodename.CheckComplete(ctx, e.World, n.Paths); err != nil {
			return err
		}
		if n.Role == node.ControlPlane {
			if err := etcddata.CheckNone(ctx, e.World, n.Paths); err != nil {
				return err
			}
			if err := reconfiguration.CheckNone(ctx, e.World, n.Paths); err != nil {
				return err
			}
			if err := Staying.Run(ctx, e); err != nil {
				return err
			}
			if err := checkIssuers(ctx, e, n, intent.To); err != nil {
				return err
			}
			if err := warnOfOthers(ctx, e, n); err != nil {
				return err
			}
		}
		if intent.Ask == nil {
			return nil
		}
		return intent.Ask(ctx)
	},
}

// Staying is Unchanging for a node whose API server may not answer before it has moved. A move that was interrupted is
// completed whatever else has begun since: that waits for it.
var Staying = engine.Phase{
	Name: "preflight",
	Run: func(ctx context.Context, e *engine.Env) error {
		intent := nodeaddress.IntentOf(e)
		if !intent.IsReachable {
			return nil
		}
		n, as, err := e.Cluster(ctx)
		if err != nil || n.Role != node.ControlPlane {
			return err
		}
		record, err := nodeaddress.ReadRecord(ctx, e.World, n.Paths)
		if err != nil {
			return err
		}
		isHalf := record.IsHalfMoved(intent.Present.Address, intent.Member)
		if !isHalf && record.To != "" { // all manifests may have moved, but other nodes wait for the rest
			own, err := nodeaddress.ReadNode(ctx, e.Reader(), as, intent.Present.Name)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			isHalf = err == nil && own.Annotations[node.MovingToAnnotation] != ""
		}
		if isHalf {
			return checkNodeChanges(ctx, e, as)
		}
		return Unchanging.Run(ctx, e)
	},
}

// warnOfOthers warns of what has a previous address and is not changed: static Pods of the user, and arguments in
// the configuration of the cluster, which an upgrade would write again.
func warnOfOthers(ctx context.Context, e *engine.Env, n *node.Node) error {
	move := nodeaddress.IntentOf(e).Move
	files, err := e.World.ReadDir(ctx, n.Paths.Manifests())
	if err != nil {
		return err
	}
	for _, f := range files {
		isOwn := slices.ContainsFunc(staticpod.Components(n), func(c string) bool { return f.Path == n.Paths.Manifest(c) })
		if !f.Mode.IsRegular() {
			continue
		}
		data, err := state.ReadOptional(ctx, e.World, f.Path)
		if err == nil && isOwn {
			data, err = move.Manifest(data)
		}
		if err != nil {
			return err
		}
		if ip, found := move.Mentions(string(data)); found {
			e.Warn("%s keeps the address %s where it may name something else than this machine; check it", untrusted.Line(f.Path), ip)
		}
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(n.Cluster.Document), &fields); err != nil {
		return untrusted.Error(err)
	}
	for _, field := range []string{"apiServer", "controllerManager", "scheduler", "etcd"} {
		if ip, found := move.Mentions(fmt.Sprint(fields[field])); found {
			e.Warn("%s in the configuration of the cluster has the address %s; to change it: kubeadm reconfigure apply --edit",
				field, ip)
		}
	}
	return nil
}

// checkIssuers is an error if a serving certificate lacks the new address and this machine cannot issue another one.
func checkIssuers(ctx context.Context, e *engine.Env, n *node.Node, to string) error {
	for _, c := range nodeaddress.ServingCertificates(n) {
		cert, err := certstore.ReadRenewable(ctx, e.World, n.Paths, c)
		if err != nil {
			return err
		}
		if cert == nil {
			return fmt.Errorf("%s does not exist", n.Paths.Cert(c.Base))
		}
		if cert.VerifyHostname(to) == nil {
			continue
		}
		issuer, _ := pki.ProfileOf(c.Issuer)
		external, err := certstore.IsExternalCA(ctx, e.World, n.Paths, issuer)
		if err != nil {
			return err
		}
		if external {
			more, _ := pki.ParseSANs([]string{to})
			return renewal.NewForeignCAError(n.Paths, c, pki.SANsOf(cert).Plus(more))
		}
	}
	return nil
}
