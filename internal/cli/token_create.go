package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/uploadcerts"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// tokenCreateOptions are the flags of "token create".
type tokenCreateOptions struct {
	*tokenOptions
	config.TokenFlags
	file      string
	printJoin bool
}

func (p *program) tokenCreate(shared *tokenOptions) *cobra.Command {
	o := &tokenCreateOptions{tokenOptions: shared, TokenFlags: config.NewTokenFlags()}
	c := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Make a token known to the cluster",
		Long: `Make a token known to the cluster and print it. Without TOKEN it is a random one. With --config the
file's bootstrapTokens are made, all of them.

With --print-join-command it prints, on one line and nothing besides on standard output, the command
that joins a machine: as a worker, or as a control plane if there is a certificate key. With
--upload-certs as well, given on a control plane, the certificates that control planes share are
lent anew for two hours, under the key given or else a new one. A key under which they were lent
before then opens nothing any more.`,
		Example: `  # the command that joins one more worker
  kubeadm token create --print-join-command

  # the command that joins one more control plane
  kubeadm token create --print-join-command --upload-certs`,
		RunE: func(c *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
			case 1:
				o.Token = args[0]
			default: // which may be secret
				return fmt.Errorf("%s makes one token, but was given %d: give the command once for each, or a file with --config", c.CommandPath(), len(args))
			}
			return p.createTokens(c, o)
		},
	}
	values{
		flag.CertificateKey: &o.CertificateKey, flag.Config: &o.file, flag.Description: &o.Description, flag.Groups: &o.Groups,
		flag.PrintJoinCommand: &o.printJoin, flag.TTL: &o.TTL, flag.UploadCerts: &o.UploadCerts, flag.Usages: &o.Usages,
	}.bind(c.Flags())
	return c
}

func (p *program) createTokens(c *cobra.Command, o *tokenCreateOptions) (err error) {
	ctx, out := c.Context(), p.Out
	if o.printJoin || !o.dryRun {
		out = p.Err // standard output has the result alone, for scripts
	}
	r, err := p.openTokenRun(ctx, out)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	local, err := p.tokensToCreate(c, o, r)
	if err != nil {
		return err
	}
	local.Timeouts.KubernetesAPI = cmp.Or(local.Timeouts.KubernetesAPI, apiLimit)
	e, err := beginTokenRun(ctx, r, o.tokenOptions, local)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, local.Timeouts.KubernetesAPI)
	defer cancel()
	ctx = withRetries(ctx, e, local.Timeouts.KubernetesAPI)
	as := p.tokenIdentity(ctx, c, o.tokenOptions, e.World)
	changes, err := newTokenChanges(ctx, e.World, as, local.Tokens)
	if err != nil {
		return err
	}
	result := local.Tokens[0].String()
	if o.printJoin {
		if result, err = joinCommand(ctx, e.World, as, local); err != nil {
			return err
		}
	}
	if o.UploadCerts {
		if err := uploadCerts(ctx, e.Named(uploadcerts.Phase.Name), as); err != nil {
			return err
		}
	}
	if err := e.Do(ctx, changes...); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, result)
	return err
}

// tokensToCreate is what the user wants of this command.
func (p *program) tokensToCreate(c *cobra.Command, o *tokenCreateOptions, r *run.Run) (node.Local, error) {
	if err := o.refuseIdle(); err != nil {
		return node.Local{}, err
	}
	file, err := p.readConfig(c.Context(), r.World(), o.file)
	if err != nil {
		return node.Local{}, err
	}
	if file.Given() {
		if err := o.RefuseMixed(givenFlags(c)); err != nil {
			return node.Local{}, err
		}
	}
	tool, err := p.tool()
	if err != nil {
		return node.Local{}, err
	}
	local, how, err := config.Tokens(file, o.TokenFlags, config.Facts{Tool: tool, Random: p.Random("bootstrap-token"), Now: r.World().Now()})
	r.Warn(how.Warnings...)
	switch {
	case err != nil:
		return local, err
	case len(local.Tokens) == 0:
		return local, fmt.Errorf("%s: it has no bootstrapTokens", o.file)
	case local.UploadCerts && local.CertificateKey == "":
		local.CertificateKey, err = p.newCertificateKey()
	case !local.UploadCerts && local.CertificateKey != "" && file.Given():
		r.Warn("the file's certificateKey is not used without --upload-certs")
		local.CertificateKey = ""
	}
	return local, err
}

// refuseIdle is an error if a flag was given that says something of the join command only, and none is asked for.
func (o *tokenCreateOptions) refuseIdle() error {
	var idle flag.Name
	switch {
	case o.printJoin:
		return nil
	case o.CertificateKey != "":
		idle = flag.CertificateKey
	case o.UploadCerts:
		idle = flag.UploadCerts
	default:
		return nil
	}
	return problem.New("", fmt.Errorf("--%s is for the join command, which is not asked for", idle), "add --print-join-command")
}

// newTokenChanges are the changes that make the tokens, if the cluster knows none of them yet.
func newTokenChanges(ctx context.Context, w world.World, as state.Identity, tokens []node.BootstrapToken) ([]change.Change, error) {
	var changes []change.Change
	for _, t := range tokens {
		_, err := w.Object(ctx, tokenRef(t.ID, as))
		if err == nil {
			return nil, problem.New("", fmt.Errorf("the cluster has a token with the ID %q already", t.ID),
				"choose another ID, or remove the old token: kubeadm token delete "+t.ID)
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
		changes = append(changes, change.ApplyObject{Object: manifest.Token(t, w.Now()), As: as})
	}
	return changes, nil
}

// joinCommand is the command that joins a machine with the first of the tokens, on one line: as a control
// plane where there is a certificate key.
func joinCommand(ctx context.Context, r state.Reader, as state.Identity, local node.Local) (string, error) {
	data, err := r.ReadFile(ctx, as.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	admin, err := pki.ParseKubeconfig(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", as.Kubeconfig, err)
	}
	cluster, err := admin.CurrentCluster()
	if err != nil {
		return "", fmt.Errorf("%s: %w", as.Kubeconfig, err)
	}
	if file := cluster.CertificateAuthority; len(cluster.CertificateAuthorityData) == 0 && file != "" {
		if !path.IsAbs(file) {
			file = path.Join(path.Dir(as.Kubeconfig), file)
		}
		if cluster.CertificateAuthorityData, err = r.ReadFile(ctx, file); err != nil {
			return "", fmt.Errorf("reading the CA that %s names: %w", as.Kubeconfig, err)
		}
	}
	key := local.CertificateKey
	text, err := manifest.JoinCommand(admin, local.Tokens[0].String(), key != "", key)
	return strings.NewReplacer("\\\n", "", "\t", "").Replace(text), err
}

// uploadCerts uploads the certificates that control planes share, encrypted with the certificate key, as the
// phase of init does.
func uploadCerts(ctx context.Context, e *flow.Env, as state.Identity) error {
	n, err := discovery.Member(ctx, e, as)
	if err != nil {
		return err
	}
	if n.Cluster.Endpoint == "" {
		e.Warn("the cluster has no controlPlaneEndpoint: no further control plane can join it before ConfigMap kubeadm-config names one")
	}
	return uploadcerts.Upload(ctx, e, n, as)
}
