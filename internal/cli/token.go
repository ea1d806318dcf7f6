package cli

import (
	"context"
	"io"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// tokenOptions are the flags that all token commands share.
type tokenOptions struct {
	kubeconfig string
	dryRun     bool
}

func (p *program) tokenCommand() *cobra.Command {
	o := &tokenOptions{kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	c := newGroup("token", "Manage bootstrap tokens", p.tokenCreate(o), p.tokenDelete(o),
		p.tokenGenerate(), p.tokenList(o))
	c.Long = `Manage bootstrap tokens. A joining machine verifies the cluster with one, and its kubelet
requests a client certificate with it. A token has the form "abcdef.0123456789abcdef": an ID, which is
public, a dot and a secret. It is stored in Secret bootstrap-token-<ID> in namespace kube-system.`
	o.bindTo(c)
	return c
}

func (o *tokenOptions) bindTo(c *cobra.Command) {
	flagTargets{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun}.bind(c.PersistentFlags())
}

// openTokenRun begins the run of a token command, which changes the cluster and not this machine.
// Events go to out.
func (p *program) openTokenRun(ctx context.Context, out io.Writer) (*run.Run, error) {
	h := p.runHost()
	h.Text.Out = out
	return run.Open(ctx, h, run.Command{Name: "token", Unlocked: true})
}

// beginTokenRun chooses the world of a token command and returns the Env of its changes.
func beginTokenRun(ctx context.Context, r *run.Run, o *tokenOptions,
	local node.Local) (*engine.Env, error) {
	if err := r.Begin(ctx, &node.Node{Local: local}, config.RunOptions{DryRun: o.dryRun}); err != nil {
		return nil, err
	}
	return r.NewEnv(engine.Env{Local: local}).Named("token"), nil
}

// tokenIdentity is the user that token commands are towards the API server: that of --kubeconfig,
// or of the first default kubeconfig that exists.
func (p *program) tokenIdentity(ctx context.Context, c *cobra.Command, o *tokenOptions,
	r state.Reader) state.Identity {
	if c.Flags().Changed(string(flag.Kubeconfig)) {
		p.warnOfForeignClient(ctx, c, r, o.kubeconfig)
		return p.readIdentity(ctx, r, o.kubeconfig)
	}
	var defaults []string // first those of kubectl
	if list, ok := p.Getenv("KUBECONFIG"); ok && list != "" {
		defaults = filepath.SplitList(list)
	} else if home, ok := p.Getenv("HOME"); ok && home != "" {
		defaults = []string{path.Join(home, ".kube", "config")}
	}
	defaults = append(defaults, o.kubeconfig)
	for _, file := range defaults {
		if _, err := r.Stat(ctx, file); err == nil {
			return p.readIdentity(ctx, r, file)
		}
	}
	return state.Identity{Kubeconfig: defaults[0]}
}

// apiLimit is how long token commands retry requests to the API server.
const apiLimit = time.Minute

// apiLimits are the settings of this machine that a token command needs which reads no
// configuration.
func apiLimits() node.Local {
	return node.Local{Paths: node.DefaultPaths(), Timeouts: node.Timeouts{KubernetesAPI: apiLimit}}
}

// withRetries is the context in which the API server is asked: transient failures are retried
// until the limit, with a warning on standard error.
func withRetries(ctx context.Context, e *engine.Env, limit time.Duration) context.Context {
	ctx = world.WithProgress(ctx, func(text string) { e.Warn("%s", text) })
	return world.WithRetry(ctx, limit)
}

// tokenRef names the Secret of a token.
func tokenRef(id string, as state.Identity) state.Ref {
	return state.Ref{GVK: secretKind, Namespace: metav1.NamespaceSystem,
		Name: manifest.TokenSecretName(id), As: as}
}

// secretKind is the kind of the objects that store tokens.
var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
