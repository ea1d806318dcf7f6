package bootstraptoken

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// newClusterInfo returns the ConfigMap cluster-info, signed with the tokens: the CA of the kubeconfig with
// which it is written, and the endpoint that the cluster stores, or the server of the kubeconfig.
func newClusterInfo(ctx context.Context, e *engine.Env, n *node.Node,
	as state.Identity) (*corev1.ConfigMap, error) {
	admin, err := certstore.ReadAdmin(ctx, e.World,
		cmp.Or(as.Kubeconfig, n.Paths.Kubeconfig("admin.conf")))
	if err != nil {
		return nil, err
	}
	if err := leadToEndpoint(ctx, e, n, as, admin); err != nil {
		return nil, err
	}
	info, err := manifest.ClusterInfo(admin)
	if err != nil {
		return nil, err
	}
	return info, signClusterInfo(info, n.Tokens)
}

// leadToEndpoint sets the server of a kubeconfig to the endpoint that the cluster stores, if this run has none: the
// kubeconfig may be older than a change of it.
func leadToEndpoint(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity, admin *pki.Kubeconfig) error {
	if n.Cluster.Endpoint != "" {
		return nil
	}
	stored, err := existing.ReadConfigMap(ctx, e.Reader(), as, manifest.KubeadmConfigMap)
	if err != nil || stored == nil {
		return err
	}
	c, _, err := config.CompleteMember(n.Local, stored.Data[manifest.KubeadmConfigKey], e.Tool)
	if err != nil || c.Cluster.Endpoint == "" {
		return nil // what needs the rest of it says what is wrong
	}
	admin.SetServer(c.ServerURL())
	return nil
}

// signClusterInfo signs cluster-info with each token that has the usage. The bootstrap signer of
// kube-controller-manager would do it some seconds later, with the same result; so machines need
// not wait for it.
func signClusterInfo(info *corev1.ConfigMap, tokens []node.BootstrapToken) error {
	for _, t := range tokens {
		if !slices.Contains(t.Usages, bootstrapapi.KnownTokenUsages[0]) {
			continue
		}
		signature, err := jws.ComputeDetachedSignature(info.Data[bootstrapapi.KubeConfigKey], t.ID,
			t.Secret)
		if err != nil {
			return fmt.Errorf("signing the ConfigMap %s: %w", info.Name, err)
		}
		info.Data[bootstrapapi.JWSSignatureKeyPrefix+t.ID] = signature
	}
	return nil
}

// newClusterInfoChange writes cluster-info. It keeps the signatures of an unchanged kubeconfig, so
// that machines can still join, and removes those of another one.
func newClusterInfoChange(info *corev1.ConfigMap, as state.Identity) change.Change {
	return change.MutateObject{Object: info, As: as,
		Mutate: func(u *unstructured.Unstructured) error {
			now, _, err := unstructured.NestedString(u.Object, "data", bootstrapapi.KubeConfigKey)
			if err == nil && now == info.Data[bootstrapapi.KubeConfigKey] {
				for key, value := range info.Data {
					if err := unstructured.SetNestedField(u.Object, value, "data",
						key); err != nil {
						return err
					}
				}
				return nil
			}
			return unstructured.SetNestedStringMap(u.Object, info.Data, "data")
		}}
}
