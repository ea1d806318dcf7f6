package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// tokenCreateOptions are the flags of "token create".
type tokenCreateOptions struct {
	*tokenOptions
	config.TokenFlags
	file           string
	printJoin      bool
	certificateKey string
}

func (p *program) tokenCreate(shared *tokenOptions) *cobra.Command {
	o := &tokenCreateOptions{tokenOptions: shared, TokenFlags: config.NewTokenFlags()}
	c := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Make a token known to the cluster",
		Long: `Make a token known to the cluster and print it. Without TOKEN it is a random one. With --config the
file's bootstrapTokens are made, all of them.`,
		Example: `  # the command that joins one more machine
  kubeadm token create --print-join-command`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Token = args[0]
			}
			return p.createTokens(c, o)
		},
	}
	values{
		flag.CertificateKey: &o.certificateKey, flag.Config: &o.file, flag.Description: &o.Description, flag.Groups: &o.Groups,
		flag.PrintJoinCommand: &o.printJoin, flag.TTL: &o.TTL, flag.Usages: &o.Usages,
	}.bind(c.Flags())
	return c
}

func (p *program) createTokens(c *cobra.Command, o *tokenCreateOptions) error {
	ctx := c.Context()
	w := o.world(p.World())
	tokens, err := p.tokensToCreate(c, o, w)
	if err != nil {
		return err
	}
	as := p.as(ctx, c, o.tokenOptions, w)
	result := tokens[0].String()
	if o.printJoin {
		if result, err = joinCommand(ctx, w, as, tokens[0], o.certificateKey); err != nil {
			return err
		}
	}
	if err := p.create(ctx, w, o, as, tokens); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, result)
	return err
}

func (p *program) tokensToCreate(c *cobra.Command, o *tokenCreateOptions, w world.World) ([]node.BootstrapToken, error) {
	if o.certificateKey != "" && !o.printJoin {
		return nil, problem.New("", errors.New("--certificate-key is for the join command, which is not asked for"), "add --print-join-command")
	}
	file, err := readConfig(c.Context(), w, o.file)
	if err != nil {
		return nil, err
	}
	if file.Given() {
		if err := o.RefuseMixed(given(c)); err != nil {
			return nil, err
		}
	}
	tool, err := p.tool()
	if err != nil {
		return nil, err
	}
	tokens, how, err := config.Tokens(file, o.TokenFlags, config.Facts{Tool: tool, Random: p.Random("bootstrap-token")})
	warn(p.text(o.dryRun), how.Warnings)
	if err == nil && len(tokens) == 0 {
		err = fmt.Errorf("%s: it has no bootstrapTokens", o.file)
	}
	return tokens, err
}

// create makes the tokens, if the cluster knows none of them yet.
func (p *program) create(ctx context.Context, w world.World, o *tokenCreateOptions, as change.Identity, tokens []node.BootstrapToken) error {
	var changes []change.Change
	for _, t := range tokens {
		_, err := w.Object(ctx, tokenRef(t.ID, as))
		if err == nil {
			return problem.New("", fmt.Errorf("the cluster has a token with the ID %q already", t.ID),
				"choose another ID, or remove the old token: kubeadm token delete "+t.ID)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		changes = append(changes, change.ApplyObject{Object: manifest.Token(t, w.Now()), As: as})
	}
	text := p.text(o.dryRun)
	defer text.Close()
	return do(ctx, w, text, changes...)
}

// joinCommand is the command that joins a machine, on one line.
func joinCommand(ctx context.Context, r change.Reader, as change.Identity, t node.BootstrapToken, key string) (string, error) {
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
	text, err := manifest.JoinCommand(admin, t.String(), key != "", key)
	return strings.NewReplacer("\\\n", "", "\t", "").Replace(text), err
}
