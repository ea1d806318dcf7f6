package cli

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
)

func newTokenDeleteCommand(p *program, o *clusterOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "delete TOKEN-OR-ID...",
		Short: "Delete bootstrap tokens",
		Long:  "Delete bootstrap tokens from the cluster. Name each one by its six-character ID or by the full token.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return problem.New(errors.New("a token or its ID is required"),
					"list the tokens: kubeadm token list")
			}
			return nil
		},
		Example:           `  kubeadm token delete abcdef`,
		ValidArgsFunction: tokenIDs(p, o),
		RunE: func(c *cobra.Command, args []string) error {
			return deleteTokens(p, c, o, args)
		},
	}
}

func deleteTokens(p *program, c *cobra.Command, o *clusterOptions, args []string) (err error) {
	var ids []string
	for _, arg := range args {
		if tokenIDForm.MatchString(arg) {
			ids = append(ids, arg)
			continue
		}
		id, _, err := node.ParseToken(arg)
		if err != nil { // arg is not repeated: it may be secret
			return fmt.Errorf(
				"neither the ID of a token (6 characters of a-z and 0-9) nor a full token: %w", err)
		}
		ids = append(ids, id)
	}
	ctx := c.Context()
	r, err := openClusterRun(ctx, p, run.Command{Name: "token"}, p.Out)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	e, err := beginClusterRun(ctx, r, o, apiLimits())
	if err != nil {
		return err
	}
	e = e.Named("token")
	as := clusterIdentity(ctx, p, c, o, e.World)
	for _, id := range ids {
		_, err := e.Object(ctx, tokenRef(id, as))
		if apierrors.IsNotFound(err) {
			return problem.New(fmt.Errorf("the cluster has no token with ID %q", id),
				"list the tokens: kubeadm token list")
		}
		if err == nil {
			err = e.Do(ctx, change.DeleteObject{Ref: tokenRef(id, as)})
		}
		if err != nil {
			return err
		}
		if !o.dryRun {
			fmt.Fprintf(p.Out, "bootstrap token %q deleted\n", id)
		}
	}
	return nil
}

var tokenIDForm = regexp.MustCompile(`^[a-z0-9]{6}$`)
