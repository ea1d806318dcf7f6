package upgrade

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/config"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// ReadNode returns the desired state of a machine that is a node already, by what its cluster
// stores. A target replaces the Kubernetes version that the cluster stores. Warnings are about the
// stored configuration. An argument of a rotation of the CAs counts only where its file exists.
func ReadNode(ctx context.Context, r state.Reader, as state.Identity, local node.Local,
	target release.Target) (n *node.Node, warnings []string, err error) {
	stored, err := readStoredConfig(ctx, r, as)
	if err != nil {
		return nil, nil, err
	}
	n, warnings, err = config.CompleteUpgrade(local, stored, target)
	if err != nil || local.Role != node.ControlPlane {
		return n, warnings, err
	}
	return n, warnings, dropSigner(ctx, r, n)
}

// dropSigner removes the arguments with which kube-controller-manager signs during a rotation of the
// CAs, if this machine does not have the pair that they name: it takes part in the rotation later, or
// has finished before other machines. It signs with ca.crt then.
func dropSigner(ctx context.Context, r state.Reader, n *node.Node) error {
	cert, key := n.Paths.RotationSigner()
	for _, file := range []string{cert, key} {
		if exists, err := state.Exists(ctx, r, file); err != nil || exists {
			return err
		}
	}
	args := &n.Cluster.ControllerManager.Args
	*args = slices.DeleteFunc(slices.Clone(*args), func(a node.Arg) bool {
		return a.Value == cert || a.Value == key
	})
	return nil
}

func readStoredConfig(ctx context.Context, r state.Reader,
	as state.Identity) (stored config.StoredConfig, err error) {
	read := reader{state: r, as: as}
	if stored.Cluster, err = read.clusterDocument(ctx); err != nil {
		return stored, err
	}
	component := func(name, key string) (config.StoredComponent, error) {
		found, err := read.configMap(ctx, name)
		if found == nil || err != nil {
			return config.StoredComponent{}, err
		}
		return config.StoredComponent{Text: found.Data[key],
			Generated: manifest.IsGenerated(found)}, nil
	}
	if stored.Kubelet, err = component(manifest.KubeletConfigMap,
		manifest.KubeletConfigKey); err != nil {
		return stored, err
	}
	stored.KubeProxy, err = component(manifest.KubeProxyConfigMap, manifest.KubeProxyConfigKey)
	if apierrors.IsForbidden(err) { // a worker may not read it, and does not need it
		err = nil
	}
	return stored, err
}
