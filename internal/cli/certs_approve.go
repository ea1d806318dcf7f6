package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
)

func (p *program) certsApproveServing() *cobra.Command {
	o := &clusterOptions{kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	watch := false
	c := &cobra.Command{
		Use:   "approve-kubelet-serving",
		Short: "Approve the kubelets' requests for serving certificates",
		Long: `Approve the certificate signing requests by which kubelets with "serverTLSBootstrap: true" ask for a
serving certificate of the cluster's CA. Kubernetes signs such requests, but does not approve them.

A request is approved only if the user who made it is the kubelet of an existing Node, and every name and address
that it asks for is in the status of that Node. Others stay pending: each is shown with the reason, and the
command ends with exit code 1.`,
		Example: `  kubeadm certs approve-kubelet-serving

  # also those of nodes that join later, and of kubelets that rotate their certificate
  kubeadm certs approve-kubelet-serving --watch`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch && o.dryRun {
				return problem.New("", errors.New("--watch and --dry-run exclude each other"),
					"leave out --watch: the dry run shows the requests that are pending now")
			}
			return p.approveServing(c, o, watch)
		},
	}
	flagTargets{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun,
		flag.Watch: &watch}.bind(c.Flags())
	return c
}

func (p *program) approveServing(c *cobra.Command, o *clusterOptions, watch bool) (err error) {
	phases := workflow.ApproveKubeletServing
	if watch {
		phases = workflow.WatchKubeletServing
	}
	ctx := c.Context()
	r, err := p.openClusterRun(ctx, run.Command{Name: "certs", Phases: phases}, p.Out)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	e, err := beginClusterRun(ctx, r, o, apiLimits())
	if err != nil {
		return err
	}
	as := p.clusterIdentity(ctx, c, o, e.World)
	e.Admin = func(context.Context) (state.Identity, error) { return as, nil }
	return r.Execute(ctx, e)
}
