package discovery

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/flow"
	"kubeadm/internal/pki"
	"kubeadm/internal/world"
)

// Look asks once, without credentials, whether any cluster answers where Node would look for one; silent says
// why not. The document is the discovery file, if there is one, of which the cluster is a part. Whatever else may be
// wrong is for Node to report.
func Look(ctx context.Context, e *flow.Env) (cluster *api.Cluster, document *pki.Kubeconfig, silent error) {
	j := e.Local.Join
	if j.File == "" {
		cluster = &api.Cluster{Server: "https://" + j.Endpoint}
		_, err := e.World.ClusterInfo(ctx, cluster.Server, nil)
		return cluster, nil, silence(err)
	}
	d, err := open(ctx, e, j.File)
	if err != nil {
		return nil, nil, nil
	}
	return d.cluster, d.config, silence(d.ask(ctx, e.World, false, &corev1.ConfigMap{}))
}

// silence is err, unless that shows that somebody is there.
func silence(err error) error {
	var said apierrors.APIStatus
	if isWrongServer(err) || world.Hopeless(err) || errors.As(err, &said) && apierrors.ReasonForError(err) != "" {
		return nil
	}
	return err
}
