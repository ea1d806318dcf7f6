package cli

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
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

// readIdentity returns the user of a kubeconfig that the user of this program has chosen. Such a
// file may turn off the verification of the server's certificate, with a warning.
func (p *program) readIdentity(ctx context.Context, r state.Reader, file string) state.Identity {
	as := state.Identity{Kubeconfig: file}
	data, err := r.ReadFile(ctx, file)
	if err != nil {
		return as // reported when the file is used
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return as
	}
	if cluster, err := config.CurrentCluster(); err == nil && cluster.InsecureSkipTLSVerify {
		as.AllowInsecure = true
		p.newText().Emit(engine.Event{Phase: "kubeconfig", Kind: engine.Warned, Text: file +
			" has insecure-skip-tls-verify: any server at that address can read and forge everything; set certificate-authority-data to the CA instead"})
	}
	return as
}

// warnOfForeignClient warns if the user names a kubeconfig whose client certificate is not signed
// by a CA that the file itself trusts, as one of another cluster is. It may still be right:
// clients may have a CA of their own.
func (p *program) warnOfForeignClient(ctx context.Context, c *cobra.Command, r state.Reader,
	file string) {
	if !c.Flags().Changed(string(flag.Kubeconfig)) {
		return
	}
	read := func(name string) ([]byte, error) { return r.ReadFile(ctx, name) }
	data, err := read(file)
	if err != nil {
		return // reported when the file is used
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return
	}
	config.ResolvePaths(path.Dir(file))
	certs, err := config.ClientPair(read)
	if err != nil || certs == nil || pki.CheckPeriod(certs[0], r.Now()) != nil ||
		config.EmbedFiles(read) != nil {
		return
	}
	trusted, err := config.EmbeddedCAs()
	signs := func(ca *x509.Certificate) bool { return pki.VerifyChain(certs, ca, r.Now()) == nil }
	if err != nil || len(trusted) == 0 || slices.ContainsFunc(trusted, signs) {
		return
	}
	p.newText().Emit(engine.Event{Phase: "kubeconfig", Kind: engine.Warned, Text: fmt.Sprintf(
		"%s: its client certificate %q is not signed by the CA that the file trusts, so the API server may refuse it",
		untrusted.Line(file), untrusted.Line(certs[0].Subject.CommonName))})
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
