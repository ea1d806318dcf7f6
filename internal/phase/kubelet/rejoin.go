package kubelet

import (
	"context"
	"errors"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// hasJoined reports whether the kubelet has its client certificate from an earlier run, and so
// needs no bootstrap kubeconfig. A certificate of another cluster than the discovered one is an
// error.
func hasJoined(ctx context.Context, e *engine.Env, n *node.Node) (bool, error) {
	path := n.Paths.KubeletKubeconfig()
	kubeconfig, err := state.ReadOptional(ctx, e.World, path)
	if err != nil || kubeconfig == nil {
		return false, err
	}
	if err := checkSameCluster(ctx, e, n, kubeconfig); err != nil {
		return false, problem.During("using the kubelet's kubeconfig "+path, err,
			"to remove this machine from its current cluster: run kubeadm reset, then re-run the command")
	}
	// The kubelet writes kubelet.conf before the cluster has issued the certificate that it refers
	// to.
	err = newCertificateCondition(n).Check(ctx, e.World)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkSameCluster checks that kubelet.conf trusts the CA of the discovered cluster.
func checkSameCluster(ctx context.Context, e *engine.Env, n *node.Node, kubeconfig []byte) error {
	found, err := pki.ParseKubeconfig(n.BootstrapKubeconfig)
	if err != nil {
		return err
	}
	expected, err := found.EmbeddedCAs()
	if err != nil {
		return err
	}
	cluster, err := found.CurrentCluster()
	if err != nil {
		return err
	}
	config, err := pki.ParseKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	server := cluster.Server
	if n.Role == node.ControlPlane {
		server = n.LocalServerURL()
	}
	warnings, err := config.CheckReuse(expected, server,
		func(path string) ([]byte, error) { return e.World.ReadFile(ctx, path) })
	for _, w := range warnings {
		e.Warn("%s: %s", n.Paths.KubeletKubeconfig(), w)
	}
	return err
}

// rejoin starts the kubelet with the client certificate that it has. If its Node was deleted, it
// stops the kubelet first: a kubelet registers only when it starts.
func rejoin(ctx context.Context, e *engine.Env, n *node.Node) error {
	found, err := pki.ParseKubeconfig(n.BootstrapKubeconfig)
	if err != nil {
		return err
	}
	// at the discovered server: the local API server may not run yet
	cluster, err := found.CurrentCluster()
	if err != nil {
		return err
	}
	as := state.Identity{Kubeconfig: n.Paths.KubeletKubeconfig(), Server: cluster.Server}
	_, err = discovery.ReadObject(ctx, e, state.Ref{GVK: state.NodeKind, Name: n.Name, As: as})
	switch {
	case apierrors.IsNotFound(err):
		e.Say("the cluster has no node %s: restarting the kubelet, which registers it", n.Name)
		if err := localkubelet.Stop(ctx, e); err != nil {
			return err
		}
	case err != nil:
		return problem.During("reading Node "+n.Name, err,
			"if the kubelet's client certificate is no longer valid: run kubeadm reset, then re-run the command")
	}
	return startKubelet(ctx, e, n)
}
