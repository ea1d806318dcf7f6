package addon

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
)

// Rebuilt keeps the addons of a cluster that was rebuilt from a backup. Only kube-proxy is deployed again,
// if the API server has another address; not if it was deleted.
var Rebuilt = engine.Phase{
	Name:     Phase.Name,
	Short:    "Keep CoreDNS and kube-proxy as they were",
	Parallel: true,
	Phases: []engine.Phase{
		{
			Name: "coredns", Short: "Keep CoreDNS", When: Phase.Phases[0].When,
			Run: func(_ context.Context, e *engine.Env) error {
				e.Say("keeping CoreDNS as it was restored")
				return nil
			},
		},
		{
			Name: "kube-proxy", Short: "Tell kube-proxy the address of the API server",
			When: Phase.Phases[1].When, Run: moveKubeProxy,
		},
	},
}

func moveKubeProxy(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	if !n.Cluster.Backup.Moves(n) {
		e.Say("keeping kube-proxy as it was restored")
		return nil
	}
	ref := state.Ref{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Namespace: metav1.NamespaceSystem,
		Name: "kube-proxy", As: as}
	_, err = e.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		e.Warn("%s does not exist, so it is not deployed again", ref)
		return nil
	}
	if err != nil {
		return err
	}
	return addons{node: n, as: as}.replaceKubeProxy(ctx, e)
}
