package kubelet

import (
	"context"
	"errors"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/discovery"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// hasJoined tells whether an earlier run got as far as the kubelet's own credential, which needs
// none for bootstrapping any more. A credential for another cluster than the one found is an error.
func hasJoined(ctx context.Context, e *flow.Env, n *node.Node) (bool, error) {
	path := n.Paths.KubeletKubeconfig()
	own, err := state.ReadOptional(ctx, e.World, path)
	if err != nil || own == nil {
		return false, err
	}
	if err := checkSameCluster(ctx, e, n, own); err != nil {
		return false, problem.New("using the kubelet's credential "+path, err,
			"if this machine is to leave the cluster it is in: kubeadm reset, then give this command again")
	}
	// The kubelet writes its kubeconfig before the cluster has granted the certificate that it refers to.
	err = newCertificateCondition(n).Check(ctx, e.World)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkSameCluster wants the kubelet's own kubeconfig to trust the CA of the cluster that was found.
func checkSameCluster(ctx context.Context, e *flow.Env, n *node.Node, own []byte) error {
	found, err := pki.ParseKubeconfig(n.Bootstrap)
	if err != nil {
		return err
	}
	expected, err := found.Trusted()
	if err != nil {
		return err
	}
	cluster, err := found.CurrentCluster()
	if err != nil {
		return err
	}
	config, err := pki.ParseKubeconfig(own)
	if err != nil {
		return err
	}
	server := cluster.Server
	if n.Role == node.ControlPlane {
		server = n.LocalServer()
	}
	warnings, err := config.CheckReuse(expected, server, func(path string) ([]byte, error) { return e.World.ReadFile(ctx, path) })
	for _, w := range warnings {
		e.Warn("%s: %s", n.Paths.KubeletKubeconfig(), w)
	}
	return err
}

// rejoin goes on with the kubelet's own credential. A Node that was deleted meanwhile only
// comes back when the kubelet starts, so a running kubelet is stopped first.
func rejoin(ctx context.Context, e *flow.Env, n *node.Node) error {
	as, err := newIdentity(n)
	if err != nil {
		return err
	}
	_, err = discovery.Object(ctx, e, state.Ref{GVK: state.NodeKind, Name: n.Name, As: as})
	switch {
	case apierrors.IsNotFound(err):
		e.Say("the cluster has no node %s: the kubelet is to register it once more", n.Name)
		if err := e.Do(ctx, change.SetService{Name: service}); err != nil {
			return err
		}
	case err != nil:
		return problem.New("asking the cluster for node "+n.Name, err,
			"if the kubelet's credential is no longer good: kubeadm reset, then give this command again")
	}
	return startKubelet(ctx, e, n)
}

// newIdentity is the kubelet at the server that was found: a control plane's own may not run yet.
func newIdentity(n *node.Node) (state.Identity, error) {
	found, err := pki.ParseKubeconfig(n.Bootstrap)
	if err != nil {
		return state.Identity{}, err
	}
	cluster, err := found.CurrentCluster()
	if err != nil {
		return state.Identity{}, err
	}
	return state.Identity{Kubeconfig: n.Paths.KubeletKubeconfig(), Server: cluster.Server}, nil
}
