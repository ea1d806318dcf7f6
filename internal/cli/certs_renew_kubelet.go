package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/workflow"
)

func newRenewKubeletCommand(p *program) *cobra.Command {
	o, token := &certsOptions{}, ""
	c := &cobra.Command{
		Use:   "kubelet.conf",
		Short: "Replace the client certificate of this node's kubelet",
		Long: `Replace the client certificate of this node's kubelet, and restart the kubelet. A kubelet rotates its own
certificate, but cannot rotate one that has expired.

On a control plane node, the CA on this machine signs the certificate. Elsewhere, set --token to a bootstrap token:
the command then requests a certificate from the API server that kubelet.conf names. kubeadm keeps a certificate
that is still valid until the new one is issued. Pods keep running.`,
		Example: `  # on a control plane node
  kubeadm certs renew kubelet.conf

  # on a worker node, with a token from "kubeadm token create" on a control plane node
  kubeadm certs renew kubelet.conf --token abcdef.0123456789abcdef`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return renewKubeletClient(p, c, o, token)
		},
	}
	o.bind(c)
	flagTargets{flag.Token: &token}.bind(c.Flags())
	return withRunOutput(p, c)
}

func renewKubeletClient(p *program, c *cobra.Command, o *certsOptions, token string) (err error) {
	ctx := c.Context()
	if token != "" {
		if _, _, err := node.ParseToken(token); err != nil {
			return problem.New(fmt.Errorf("--%s: %w", flag.Token, err),
				"create one on a control plane node: kubeadm token create")
		}
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "certs", Phases: workflow.RenewKubelet})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	settings, err := readClusterOrConfig(p, c, o, r)
	r.Warn(settings.warnings...)
	if err != nil {
		return err
	}
	n := settings.Node
	if err := completeMachine(ctx, r, n); err != nil {
		return err
	}
	n.Discovery.TLSBootstrapToken = token
	if err := r.Begin(ctx, n, config.RunOptions{}); err != nil {
		return err
	}
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n)})
	existing.RemoveTemporary(ctx, e.Named("renew"), n.Paths)
	return r.Execute(ctx, e)
}
