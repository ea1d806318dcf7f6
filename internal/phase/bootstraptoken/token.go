// Package bootstraptoken lets machines join: tokens, what they may do, and the public signpost to the cluster.
package bootstraptoken

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// Phase makes the tokens, their rights and the ConfigMap cluster-info.
var Phase = flow.Phase{
	Name:    "bootstrap-token",
	Aliases: []string{"bootstraptoken"},
	Short:   "Make tokens with which nodes join",
	Long: "Make the bootstrap tokens, the rights with which a machine that shows one gets its own certificate, " +
		"and the public ConfigMap by which it knows the cluster.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.Kubeconfig, flag.SkipTokenPrint},
	Run: func(ctx context.Context, e *flow.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		info, err := newClusterInfo(ctx, e, n)
		if err != nil {
			return err
		}
		sayTokens(e, n)
		e.Say("giving tokens the right to get nodes their certificates, and nodes the right to renew them")
		e.Say("telling everybody where the cluster is in ConfigMap %q of namespace %q", "cluster-info", "kube-public")
		return e.DoAll(ctx, append(change.ApplyAll(as, newObjects(e, n)...), writeClusterInfo(info, as))...)
	},
}

func newClusterInfo(ctx context.Context, e *flow.Env, n *node.Node) (*corev1.ConfigMap, error) {
	data, err := e.World.ReadFile(ctx, n.Paths.Kubeconfig("admin.conf"))
	if err != nil {
		return nil, err
	}
	admin, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil, err
	}
	info, err := manifest.ClusterInfo(admin)
	if err != nil {
		return nil, err
	}
	return info, signClusterInfo(info, n.Tokens)
}

// signClusterInfo vouches for cluster-info with each token that may, as the cluster's own signer will some seconds
// later: machines need not wait for that. HS256 makes the same signature of the same text.
func signClusterInfo(info *corev1.ConfigMap, tokens []node.BootstrapToken) error {
	for _, t := range tokens {
		if !slices.Contains(t.Usages, bootstrapapi.KnownTokenUsages[0]) {
			continue
		}
		signature, err := jws.ComputeDetachedSignature(info.Data[bootstrapapi.KubeConfigKey], t.ID, t.Secret)
		if err != nil {
			return fmt.Errorf("signing the ConfigMap %s: %w", info.Name, err)
		}
		info.Data[bootstrapapi.JWSSignatureKeyPrefix+t.ID] = signature
	}
	return nil
}

// writeClusterInfo writes cluster-info. The signatures beside an unchanged kubeconfig stay, so that
// machines may go on joining; those of another one go with it.
func writeClusterInfo(info *corev1.ConfigMap, as state.Identity) change.Change {
	return change.MutateObject{Object: info, As: as, Mutate: func(u *unstructured.Unstructured) error {
		now, _, err := unstructured.NestedString(u.Object, "data", bootstrapapi.KubeConfigKey)
		if err == nil && now == info.Data[bootstrapapi.KubeConfigKey] {
			return addSignatures(u, info.Data)
		}
		return unstructured.SetNestedStringMap(u.Object, info.Data, "data")
	}}
}

// addSignatures adds the signatures that are missing.
func addSignatures(u *unstructured.Unstructured, data map[string]string) error {
	for key, value := range data {
		if err := unstructured.SetNestedField(u.Object, value, "data", key); err != nil {
			return err
		}
	}
	return nil
}

func newObjects(e *flow.Env, n *node.Node) []state.Object {
	var all []state.Object
	for _, t := range n.Tokens {
		all = append(all, manifest.Token(t, e.World.Now()))
	}
	return append(append(all, manifest.BootstrapRBAC()...), manifest.ClusterInfoAccess()...)
}

func sayTokens(e *flow.Env, n *node.Node) {
	for _, t := range n.Tokens {
		shown := t.String()
		if e.Withhold.Token {
			shown = flow.Withheld
		}
		e.Say("using token: %s", shown)
	}
}
