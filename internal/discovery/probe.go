package discovery

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/world"
)

// Probe asks once, without credentials, whether a cluster answers where Node would look for one;
// unreachable says why not. config is the discovery file, if there is one, and cluster a part of
// it. Node reports all other errors.
func Probe(ctx context.Context,
	e *engine.Env) (cluster *api.Cluster, config *pki.Kubeconfig, unreachable error) {
	j := e.Local.Discovery
	if j.File == "" {
		cluster = &api.Cluster{Server: "https://" + j.Endpoint}
		_, err := e.World.ClusterInfo(ctx, cluster.Server, nil)
		return cluster, nil, connectionError(err)
	}
	d, err := readDiscoveryFile(ctx, e, j.File)
	if err != nil {
		return nil, nil, nil
	}
	return d.cluster, d.config,
		connectionError(d.readClusterInfo(ctx, e.World, false, &corev1.ConfigMap{}))
}

// connectionError returns err, nil if a server has answered.
func connectionError(err error) error {
	var answer apierrors.APIStatus
	if isWrongServer(err) || world.IsPermanent(err) || errors.As(err, &answer) &&
		apierrors.ReasonForError(err) != "" {
		return nil
	}
	return err
}
