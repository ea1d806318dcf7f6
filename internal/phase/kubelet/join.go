package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// JoinStart writes the bootstrap kubeconfig of a joining machine's kubelet and starts the kubelet.
var JoinStart = engine.Phase{
	Name:  "kubelet-start",
	Short: "Write the kubelet's configuration and bootstrap kubeconfig, and start the kubelet",
	Long:  "Write the kubelet's configuration and the bootstrap kubeconfig for its client certificate request, then start or restart the kubelet.",
	Flags: flag.WithDiscovery(flag.Config, flag.CRISocket, flag.DryRun, flag.NodeAddressFrom, flag.NodeName,
		flag.Patches),
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		joined, err := hasJoined(ctx, e, n)
		if err != nil {
			return err
		}
		if !joined {
			if err := checkNodeName(ctx, e, n); err != nil {
				return err
			}
		}
		if n.Role == node.ControlPlane {
			if err := awaitFiles(ctx, e, n); err != nil {
				return err
			}
			if err := stopForFailedComponents(ctx, e, n); err != nil {
				return err
			}
			// A kubelet that finds no directory of manifests looks for it again only later.
			if err := e.Do(ctx, change.MakeDir{Path: n.Paths.Manifests(), Mode: 0o700}); err != nil {
				return err
			}
		}
		if joined {
			return rejoin(ctx, e, n)
		}
		changes, err := newCredentialFiles(ctx, e, n)
		if err != nil {
			return err
		}
		if err := e.Do(ctx, changes...); err != nil {
			return err
		}
		return startKubelet(ctx, e, n, n.Paths.BootstrapKubeconfig())
	},
}

// newCredentialFiles returns the bootstrap kubeconfig and the cluster's CA. It overwrites the CA
// of an earlier run of this command, which may be of another cluster, and no other one, nor that of
// a control plane, which other phases have checked and read meanwhile. A control plane's kubelet
// has the local API server, so that the kubelet is never newer than its API server.
func newCredentialFiles(ctx context.Context, e *engine.Env, n *node.Node) ([]change.Change, error) {
	config, err := pki.ParseKubeconfig(n.BootstrapKubeconfig)
	if err != nil {
		return nil, err
	}
	cluster, err := config.CurrentCluster()
	if err != nil {
		return nil, err
	}
	bootstrap := n.BootstrapKubeconfig
	if n.Role == node.ControlPlane {
		config.SetServer(n.LocalServerURL())
		if bootstrap, err = config.Encode(); err != nil {
			return nil, err
		}
	}
	changes := []change.Change{change.WriteFile{Path: n.Paths.BootstrapKubeconfig(),
		Data: bootstrap, Mode: 0o600, Secret: true}}
	old, err := state.ReadOptional(ctx, e.World, n.CACertPath)
	isOurs := e.World.WasCreated(change.FileTarget(n.CACertPath)) &&
		(n.Role == node.Worker || n.CACertPath != n.Paths.Cert("ca"))
	if err != nil || old != nil && !isOurs {
		return changes, err
	}
	return append(changes, change.WriteFile{Path: n.CACertPath,
		Data: cluster.CertificateAuthorityData, Mode: 0o644}), nil
}

// nodeIsNew is the note that the cluster had no Node of this machine's name before the kubelet was started.
const nodeIsNew = "node-is-new"

// checkNodeName is an error if the cluster has a Node of this name that is Ready, and so of
// another machine.
func checkNodeName(ctx context.Context, e *engine.Env, n *node.Node) error {
	u, err := discovery.ReadObject(ctx, e,
		state.Ref{GVK: state.NodeKind, Name: n.Name,
			As: state.Identity{Config: n.BootstrapKubeconfig}})
	if apierrors.IsNotFound(err) {
		e.Note(nodeIsNew)
		return nil
	}
	if err != nil {
		return fmt.Errorf("checking whether a Node %s exists: %w", n.Name, err)
	}
	var other corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &other); err != nil {
		return fmt.Errorf("reading Node %s: %w", n.Name, err)
	}
	for _, c := range other.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return problem.New(
				fmt.Errorf("the cluster already has a node %s, and it is Ready", n.Name),
				"choose another name with --node-name",
				untrusted.CommandHint("or remove that node first", "kubectl delete node", n.Name))
		}
	}
	e.Say("the cluster already has a node %s, but it is not Ready: this machine replaces it", n.Name)
	return nil
}
