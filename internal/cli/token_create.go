package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
)

// tokenCreateOptions are the flags of "token create".
type tokenCreateOptions struct {
	*clusterOptions
	config.TokenFlags
	file      string
	printJoin bool
}

func newTokenCreateCommand(p *program, shared *clusterOptions) *cobra.Command {
	o := &tokenCreateOptions{clusterOptions: shared, TokenFlags: config.NewTokenFlags()}
	c := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Create a bootstrap token",
		Long: `Create a bootstrap token in the cluster and print it. Without TOKEN, kubeadm generates a random one. With
--config, every token under bootstrapTokens in the file is created.

With --print-join-command, the output is a join command on one line: for a control plane node if --certificate-key or
--upload-certs is set, otherwise for a worker. With --upload-certs, which works only on a control plane node, kubeadm
uploads the control plane certificates again, and files referenced by component arguments, encrypted with
--certificate-key or a new key. They are deleted after two hours. Keys from earlier uploads stop working.`,
		Example: `  # print the join command for a worker
  kubeadm token create --print-join-command

  # print the join command for a control plane node
  kubeadm token create --print-join-command --upload-certs`,
		RunE: func(c *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
			case 1:
				o.Token = args[0]
			default: // which may be secret
				return fmt.Errorf("%s takes one token, but got %d: run the command once for each, or list them in a file for --config", c.CommandPath(), len(args))
			}
			return createTokens(p, c, o)
		},
	}
	flagTargets{
		flag.CertificateKey: &o.CertificateKey, flag.Config: &o.file,
		flag.Description: &o.Description, flag.Groups: &o.Groups,
		flag.PrintJoinCommand: &o.printJoin, flag.TTL: &o.TTL, flag.UploadCerts: &o.UploadCerts,
		flag.Usages: &o.Usages,
	}.bind(c.Flags())
	return c
}

func createTokens(p *program, c *cobra.Command, o *tokenCreateOptions) (err error) {
	ctx, out := c.Context(), p.Out
	if o.printJoin || !o.dryRun {
		out = p.Err // standard output has the result alone, for scripts
	}
	r, err := openClusterRun(ctx, p, run.Command{Name: "token"}, out)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	local, err := tokensToCreate(p, c, o, r)
	if err != nil {
		return err
	}
	local.Timeouts.KubernetesAPI = cmp.Or(local.Timeouts.KubernetesAPI, apiLimit)
	e, err := beginClusterRun(ctx, r, o.clusterOptions, local)
	if err != nil {
		return err
	}
	e = e.Named("token")

	ctx, cancel := context.WithTimeout(ctx, local.Timeouts.KubernetesAPI)
	defer cancel()
	as := clusterIdentity(ctx, p, c, o.clusterOptions, e.World)
	changes, err := newTokenChanges(ctx, e.Reader(), as, local.Tokens)
	if err != nil {
		return err
	}
	result := local.Tokens[0].String()
	if o.printJoin {
		if result, err = joinCommand(ctx, e.World, as, local); err != nil {
			return err
		}
	}
	if o.UploadCerts { // as the phase of init does
		upload := e.Named(string(phaseindex.UploadCerts))
		n, err := existing.ReadCluster(ctx, upload, as)
		if err != nil {
			return err
		}
		if n.Cluster.Endpoint == "" {
			upload.Warn("the cluster has no controlPlaneEndpoint: no other control plane node can join until it " +
				"has one: kubeadm endpoint change HOST[:PORT]")
		}
		if err := sharedcerts.Upload(ctx, upload, n, as); err != nil {
			return err
		}
	}
	if err := e.Do(ctx, changes...); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, result)
	return err
}

// tokensToCreate resolves the flags or the file.
func tokensToCreate(p *program, c *cobra.Command, o *tokenCreateOptions,
	r *run.Run) (node.Local, error) {
	var idle flag.Name // without the join command
	switch {
	case o.printJoin:
	case o.CertificateKey != "":
		idle = flag.CertificateKey
	case o.UploadCerts:
		idle = flag.UploadCerts
	}
	if idle != "" {
		return node.Local{}, problem.New(
			fmt.Errorf("--%s has an effect only with --print-join-command", idle),
			"add --print-join-command")
	}
	file, err := readConfig(c.Context(), p, r.World(), o.file)
	if err != nil {
		return node.Local{}, err
	}
	if file.Given() {
		if err := o.RefuseMixed(givenFlags(c)); err != nil {
			return node.Local{}, err
		}
	}
	tool, err := ownRelease(p)
	if err != nil {
		return node.Local{}, err
	}
	local, how, err := config.Tokens(file, o.TokenFlags,
		config.Facts{Tool: tool, Random: p.Random("bootstrap-token"), Now: r.World().Now()})
	r.Warn(how.Warnings...)
	switch {
	case err != nil:
		return local, err
	case len(local.Tokens) == 0:
		return local, fmt.Errorf("%s: no bootstrapTokens", o.file)
	case local.UploadCerts && local.CertificateKey == "":
		local.CertificateKey, err = newCertificateKey(p.Random)
	case !local.UploadCerts && local.CertificateKey != "" && file.Given():
		r.Warn("the file's certificateKey is not used without --upload-certs")
		local.CertificateKey = ""
	}
	return local, err
}

// newTokenChanges are the changes that create the tokens. A token that exists is an error.
func newTokenChanges(ctx context.Context, r state.Reader, as state.Identity,
	tokens []node.BootstrapToken) ([]change.Change, error) {
	var changes []change.Change
	for _, t := range tokens {
		_, err := r.Object(ctx, tokenRef(t.ID, as))
		if err == nil {
			return nil, problem.New(fmt.Errorf("a token with ID %q already exists", t.ID),
				"use another ID, or delete the old token: kubeadm token delete "+t.ID)
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
		changes = append(changes,
			change.ApplyObject{Object: manifest.NewTokenSecret(t, r.Now()), As: as})
	}
	return changes, nil
}

// joinCommand is the join command with the first of the tokens, on one line: for a control plane
// if there is a certificate key.
func joinCommand(ctx context.Context, r state.Reader, as state.Identity,
	local node.Local) (string, error) {
	admin, err := certstore.ReadAdmin(ctx, r, as.Kubeconfig)
	if err != nil {
		return "", err
	}
	key := local.CertificateKey
	text, err := manifest.JoinCommand(admin, local.Tokens[0].String(), key != "", key)
	return strings.NewReplacer("\\\n", "", "\t", "").Replace(text), err
}
