package cli

import (
	"context"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/report"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/preview"
)

// tokenOptions are the flags that all token commands share.
type tokenOptions struct {
	kubeconfig string
	dryRun     bool
}

func (p *program) tokenCommand() *cobra.Command {
	o := &tokenOptions{kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	c := group("token", "Work with bootstrap tokens", p.tokenCreate(o), p.tokenDelete(o), p.tokenGenerate(), p.tokenList(o))
	c.Long = `Work with bootstrap tokens. With one, a machine that joins knows the cluster and the
cluster lets it ask for a certificate. A token looks like "abcdef.0123456789abcdef": an ID,
which is no secret, a dot and a secret. It is kept in the Secret bootstrap-token-<ID> of
namespace kube-system.`
	o.bindTo(c)
	return c
}

func (o *tokenOptions) bindTo(c *cobra.Command) {
	values{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun}.bind(c.PersistentFlags())
}

// world is where token commands change something.
func (o *tokenOptions) world(real world.World) world.World {
	if o.dryRun {
		return preview.New(real, "", preview.Paths{})
	}
	return real
}

// as is as whom the cluster is asked: the user's choice, or the first kubeconfig of the usual places that exists.
func (p *program) as(ctx context.Context, c *cobra.Command, o *tokenOptions, r state.Reader) state.Identity {
	if c.Flags().Changed(string(flag.Kubeconfig)) {
		return p.identity(ctx, r, o.kubeconfig)
	}
	places := append(p.ownKubeconfigs(), o.kubeconfig)
	for _, place := range places {
		if _, err := r.Stat(ctx, place); err == nil {
			return p.identity(ctx, r, place)
		}
	}
	return state.Identity{Kubeconfig: places[0]}
}

// identity is the user of a kubeconfig that the person who runs this program has chosen. Such a file may turn off the
// verification of the server, which is warned of.
func (p *program) identity(ctx context.Context, r state.Reader, file string) state.Identity {
	as := state.Identity{Kubeconfig: file}
	data, err := r.ReadFile(ctx, file)
	if err != nil {
		return as // told when it is used
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return as
	}
	if cluster, err := config.CurrentCluster(); err == nil && cluster.InsecureSkipTLSVerify {
		as.Unverified = true
		p.text(false).Emit(flow.Event{Phase: "kubeconfig", Kind: flow.Warned, Text: file +
			" has insecure-skip-tls-verify: whoever answers at the server's address can read and forge everything; put the CA into certificate-authority-data instead"})
	}
	return as
}

// ownKubeconfigs are those of the user who runs this program.
func (p *program) ownKubeconfigs() []string {
	if list, ok := p.Getenv("KUBECONFIG"); ok && list != "" {
		return filepath.SplitList(list)
	}
	if home, ok := p.Getenv("HOME"); ok && home != "" {
		return []string{path.Join(home, ".kube", "config")}
	}
	return nil
}

// apiLimit is how long token commands retry what the API server is asked.
const apiLimit = time.Minute

// retrying is the context in which the cluster is asked: what fails in a way that may pass is retried until the limit, and
// the user told of it on standard error.
func retrying(ctx context.Context, t *report.Text, limit time.Duration) context.Context {
	ctx = world.Listen(ctx, func(text string) {
		t.Emit(flow.Event{Phase: "token", Kind: flow.Warned, Text: text})
	})
	return world.Retry(ctx, limit)
}

// do carries out changes and tells what a dry run would have done.
func do(ctx context.Context, w world.World, t *report.Text, changes ...change.Change) error {
	for _, c := range changes {
		if err := w.Do(ctx, c); err != nil {
			return err
		}
		t.Emit(flow.Event{Time: w.Now(), Phase: "token", Kind: flow.Did, Text: c.String(), Change: c})
	}
	return nil
}

// tokenRef names the Secret of a token.
func tokenRef(id string, as state.Identity) state.Ref {
	return state.Ref{GVK: secretKind, Namespace: metav1.NamespaceSystem, Name: manifest.TokenSecretName(id), As: as}
}

// secretKind is the kind that tokens are kept in.
var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
