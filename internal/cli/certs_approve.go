package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/kubeletserving"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
)

func (p *program) certsApproveServing() *cobra.Command {
	o := &clusterOptions{kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	watch := false
	var cidrs, suffixes []string
	c := &cobra.Command{
		Use:   "approve-kubelet-serving",
		Short: "Approve the kubelets' requests for serving certificates",
		Long: `Approve the certificate signing requests by which kubelets with "serverTLSBootstrap: true" ask for a
serving certificate of the cluster's CA. Kubernetes signs such requests, but does not approve them.

A request is approved only if the user who made it is the kubelet of an existing Node, and it asks for nothing but:

  * the name of that Node, or a name in a domain of --allowed-dns-suffix
  * addresses in the networks of --allowed-cidr. Without that flag: addresses in the networks of this machine's API
    server, so run the command on a control plane node
  * for control plane nodes, the addresses that API servers publish in the cluster

The status of the Node must list them too, but is no evidence by itself: the kubelet's own credential writes it.
Always refused are wildcards, names and addresses of Services, addresses of Pods, and names and addresses of other
Nodes. The addresses of API servers and etcd members, controlPlaneEndpoint and apiServer.certSANs are refused unless
the Node has the label of a control plane node. If two workers have the same address, neither is approved.

The names and addresses are shown before a request is approved. Other requests stay pending: each is shown with the
reason, and the command ends with exit code 1.

What the command cannot verify:

  * that an address in an allowed network, which nothing else in the cluster has, belongs to the node
  * that a name in a domain of --allowed-dns-suffix does
  * which machine joined as the Node: whoever has a bootstrap token chooses the name
  * addresses that load balancers serve

Labels count only while the API server has the admission plugin NodeRestriction, as it has by default.`,
		Example: `  kubeadm certs approve-kubelet-serving

  # nodes in two networks, with names that a cloud provider gives them
  kubeadm certs approve-kubelet-serving --allowed-cidr 10.0.0.0/16,10.1.0.0/16 \
    --allowed-dns-suffix eu-west-1.compute.internal

  # also those of nodes that join later, and of kubelets that rotate their certificate
  kubeadm certs approve-kubelet-serving --watch`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch && o.dryRun {
				return problem.New("", errors.New("--watch and --dry-run exclude each other"),
					"leave out --watch: the dry run shows the requests that are pending now")
			}
			allowed, err := kubeletserving.ParseAllowed(cidrs, suffixes)
			if err != nil {
				return err
			}
			phases := workflow.ApproveKubeletServing(allowed)
			if watch {
				phases = workflow.WatchKubeletServing(allowed)
			}
			return p.approveServing(c, o, phases)
		},
	}
	flagTargets{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun, flag.Watch: &watch,
		flag.AllowedCIDR: &cidrs, flag.AllowedDNSSuffix: &suffixes}.bind(c.Flags())
	return c
}

func (p *program) approveServing(c *cobra.Command, o *clusterOptions,
	phases []engine.Phase) (err error) {
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
