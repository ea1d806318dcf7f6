package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
)

func (p *program) joinCommand() *cobra.Command {
	t := tree{name: "join [api-server-endpoint]", phases: workflow.Join, args: oneEndpoint, begin: p.beginJoin}
	return t.command(&cobra.Command{
		Use:   "join [api-server-endpoint]",
		Short: "Make this machine a node of a cluster",
		Long: `Make this machine a node of a cluster. The command to give, with endpoint, token and
hash, is what init tells at its end, or "kubeadm token create --print-join-command" on a
control plane.`,
		Example: `  kubeadm join 192.0.2.10:6443 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:...`,
	}, joinFlags()...)
}

func oneEndpoint(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one endpoint, host:port, but was given %q", c.CommandPath(), args)
	}
	return nil
}

func joinFlags() []flag.Name {
	return []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.CertificateKey, flag.Config, flag.ControlPlane,
		flag.CRISocket, flag.DiscoveryFile, flag.DiscoveryToken, flag.DiscoveryTokenHash, flag.DiscoveryTokenUnsafe, flag.DryRun,
		flag.IgnorePreflightErrors, flag.NodeName, flag.Patches, flag.SkipPhases, flag.TLSBootstrapToken, flag.Token}
}

// joinOptions are the flags of join and its phases.
type joinOptions struct {
	config.JoinFlags
	file string
}

func (o *joinOptions) values() values {
	return values{
		flag.APIServerAdvertise:    &o.AdvertiseAddress,
		flag.APIServerBindPort:     &o.BindPort,
		flag.CertificateKey:        &o.CertificateKey,
		flag.Config:                &o.file,
		flag.ControlPlane:          &o.ControlPlane,
		flag.CRISocket:             &o.CRISocket,
		flag.DiscoveryFile:         &o.DiscoveryFile,
		flag.DiscoveryToken:        &o.DiscoveryToken,
		flag.DiscoveryTokenHash:    &o.CACertHashes,
		flag.DiscoveryTokenUnsafe:  &o.UnsafeSkipCAVerification,
		flag.DryRun:                &o.DryRun,
		flag.IgnorePreflightErrors: &o.IgnorePreflightErrors,
		flag.NodeName:              &o.NodeName,
		flag.Patches:               &o.Patches,
		flag.SkipPhases:            &o.SkipPhases,
		flag.TLSBootstrapToken:     &o.TLSBootstrapToken,
		flag.Token:                 &o.Token,
	}
}

func (p *program) beginJoin(sel flow.Selection) (values, func(*cobra.Command, []string) error) {
	o := &joinOptions{JoinFlags: config.NewJoinFlags()}
	return o.values(), func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.Endpoint = args[0]
		}
		return p.runJoin(c, o, sel)
	}
}

func (p *program) runJoin(c *cobra.Command, o *joinOptions, sel flow.Selection) error {
	ctx, real := c.Context(), p.World()
	local, how, err := p.resolveJoin(c, real, o)
	s := p.session(real, "join", sel, how)
	s.phases, s.makes = workflow.Join, true
	if err != nil {
		return err
	}
	return p.within(ctx, s, &node.Node{Local: local}, func(e *flow.Env) error {
		e.Node = memoised(func(ctx context.Context) (*node.Node, error) { return discovery.Node(ctx, e) })
		if err := p.standIn(ctx, s, e); err != nil {
			return err
		}
		if err := s.run(ctx, e); err != nil || s.dryRun || !s.whole() {
			return err
		}
		s.say(flow.Printed, joined)
		return nil
	})
}

// joined are the last words of a join.
const joined = `
This machine is a node of the cluster now: its request for a certificate was granted, and the
kubelet talks to the API server with it.

To see it in the list of nodes, give this command where you administer the cluster:

  kubectl get nodes
`

// memoised finds the node once, for all who ask.
func memoised(find func(context.Context) (*node.Node, error)) func(context.Context) (*node.Node, error) {
	var mu sync.Mutex
	var known *node.Node
	return func(ctx context.Context) (n *node.Node, err error) {
		mu.Lock()
		defer mu.Unlock()
		if known == nil {
			known, err = find(ctx)
		}
		return known, err
	}
}

func (p *program) resolveJoin(c *cobra.Command, real world.World, o *joinOptions) (node.Local, config.Run, error) {
	file, facts, err := p.inputs(c, real, o.file, o.RefuseMixed)
	if err != nil {
		return node.Local{}, config.Run{}, err
	}
	local, how, err := config.Join(file, o.JoinFlags, facts)
	if err == nil && local.Role == node.ControlPlane {
		err = problem.New("", errors.New("this version of kubeadm cannot join further control planes yet"),
			"join this machine as a worker, without --control-plane",
			"or join it with the kubeadm v1.37 of https://kubernetes.io/releases, which understands the clusters made by this one")
	}
	return local, how, err
}
