package cli

import (
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

func newTokenCommand(p *program) *cobra.Command {
	o := &clusterOptions{kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	c := newGroup("token", "Manage bootstrap tokens", newTokenCreateCommand(p, o), newTokenDeleteCommand(p, o),
		newTokenGenerateCommand(p), newTokenListCommand(p, o))
	c.Long = `Manage bootstrap tokens. A joining machine uses a bootstrap token to verify the cluster, and its
kubelet uses it to request a client certificate. A token has the form "abcdef.0123456789abcdef": a public ID, a
dot and a secret. It is stored in the Secret bootstrap-token-<ID> in the kube-system namespace.`
	o.bindTo(c)
	return c
}

// tokenRef names the Secret of a token.
func tokenRef(id string, as state.Identity) state.Ref {
	return state.Ref{GVK: secretKind, Namespace: metav1.NamespaceSystem,
		Name: manifest.TokenSecretName(id), As: as}
}

// secretKind is the kind of the objects that store tokens.
var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
