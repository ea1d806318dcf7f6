package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
)

func newApproveServingCommand(p *program) *cobra.Command {
	o := &clusterOptions{kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	watch := false
	var cidrs, suffixes []string
	c := &cobra.Command{
		Use:   "approve-kubelet-serving",
		Short: "Approve kubelet serving certificate requests",
		Long: `Approve the certificate signing requests of kubelets that have "serverTLSBootstrap: true" and want a serving
certificate from the cluster's CA. Kubernetes signs these requests, but does not approve them.

The command approves a request only if it comes from the kubelet of an existing Node and asks for nothing but:

  * the name of that Node, or a name in a domain of --allowed-dns-suffix
  * addresses in the networks of --allowed-cidr; without that flag, in the networks of this machine's API server, so
    run the command on a control plane node
  * for control plane nodes, the addresses that API servers publish in the cluster

The Node's status must list the names and addresses too, but it does not prove anything by itself, because the kubelet
writes it. The command always refuses wildcards, the names and addresses of Services and of other Nodes, and the
addresses of Pods. It refuses the addresses of API servers and etcd members, controlPlaneEndpoint and
apiServer.certSANs unless the Node is labeled as a control plane node. If two workers claim the same address, it
approves neither.

The command shows the names and addresses before it approves a request. All other requests stay pending: the command
shows why, and exits with code 1.

The command cannot verify:

  * that an address in an allowed network belongs to the node, if nothing else in the cluster uses that address
  * that a name in a domain of --allowed-dns-suffix belongs to the node
  * which machine joined as the Node: anyone with a bootstrap token can choose the name
  * addresses that load balancers serve

Labels are trusted only while the API server runs the admission plugin NodeRestriction, which it does by default.`,
		Example: `  kubeadm certs approve-kubelet-serving

  # nodes in two networks, with names assigned by a cloud provider
  kubeadm certs approve-kubelet-serving --allowed-cidr 10.0.0.0/16,10.1.0.0/16 \
    --allowed-dns-suffix eu-west-1.compute.internal

  # keep running: also approve nodes that join later and kubelets that rotate their certificates
  kubeadm certs approve-kubelet-serving --watch`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch && o.dryRun {
				return problem.New(errors.New("--watch and --dry-run cannot be used together"),
					"leave out --watch: the dry run shows the requests that are pending now")
			}
			allowed, err := config.AllowedNames(cidrs, suffixes)
			if err != nil {
				return err
			}
			phases := workflow.ApproveKubeletServing(allowed)
			if watch {
				phases = workflow.WatchKubeletServing(allowed)
			}
			return approveServing(p, c, o, phases)
		},
	}
	flagTargets{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun, flag.Watch: &watch,
		flag.AllowedCIDR: &cidrs, flag.AllowedDNSSuffix: &suffixes}.bind(c.Flags())
	return c
}

func approveServing(p *program, c *cobra.Command, o *clusterOptions,
	phases []engine.Phase) (err error) {
	ctx := c.Context()
	r, err := openClusterRun(ctx, p, run.Command{Name: "certs", Phases: phases}, p.Out)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	e, err := beginClusterRun(ctx, r, o, apiLimits())
	if err != nil {
		return err
	}
	as := clusterIdentity(ctx, p, c, o, e.World)
	e.Admin = func(context.Context) (state.Identity, error) { return as, nil }
	return r.Execute(ctx, e)
}
