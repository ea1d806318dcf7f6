package cli

import (
	"cmp"
	"context"
	"crypto"

	"github.com/spf13/cobra"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/renew"
	"kubeadm/internal/pki"
	"kubeadm/internal/workflow"
)

// everything stands for all certificates.
const everything = "all"

func (p *program) certsRenew() *cobra.Command {
	c := group("renew", "Renew certificates", p.renewCommand(everything, "Renew all certificates of this control plane"))
	c.Long = "Renew certificates of a control plane: not its authorities, and not those that kubelets renew themselves."
	for _, r := range pki.Renewables() {
		c.AddCommand(p.renewCommand(r.Name, "Renew the certificate for "+r.For))
	}
	return c
}

func (p *program) renewCommand(name, short string) *cobra.Command {
	o := newCertsOptions()
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Long: short + `, whether it is about to end or not.

The new one says the same: names, groups, addresses and usages are those of the old one. It gets a new key of the kind that
the cluster's configuration names, or of the same kind as before where that is not to be had. It is signed by the
authority on this machine; one whose key is kept elsewhere signs nothing here, and what it signed is left as it is.

What uses the certificate goes on with the old one until it is restarted. Where the command is interrupted, give it again.`,
		Example: "  kubeadm certs renew " + name,
		Args:    known,
		RunE:    func(c *cobra.Command, _ []string) error { return p.renew(c, o, name) },
	}
	o.values().bind(c.Flags())
	return c
}

// restart is what is left to the user to do. Components read most of their certificates only when they start.
const restart = `
The certificates are renewed. etcd and the three components of the control plane
take them up when they start: move each manifest out of /etc/kubernetes/manifests for a moment.
`

func (p *program) renew(c *cobra.Command, o *certsOptions, name string) error {
	ctx, real := c.Context(), p.World()
	n, warnings, err := p.known(c, o, real)
	var sel flow.Selection
	if name != everything {
		sel.Only = renew.Address(name)
	}
	s := p.session(real, "certs", sel, config.Run{Warnings: warnings})
	s.phases = workflow.Renew
	if err != nil {
		return err
	}
	return p.within(ctx, s, n, func(e *flow.Env) error {
		e.Node = func(context.Context) (*node.Node, error) { return n, nil }
		e.Keys = p.keysToRenew(ctx, s, n)
		if err := s.run(ctx, e); err != nil {
			return err
		}
		for _, doubt := range unpaired(ctx, s.world, n) {
			s.say(flow.Warned, doubt)
		}
		if !s.whole() {
			return nil
		}
		s.say(flow.Printed, restart)
		return nil
	})
}

// keysToRenew gives private keys of the kind that the cluster wants, made ahead side by side if that is known.
func (p *program) keysToRenew(ctx context.Context, s *session, n *node.Node) func() (crypto.Signer, error) {
	ahead := 0
	for _, r := range pki.Renewables() {
		_, err := s.world.Stat(ctx, certstore.RenewablePath(n.Paths, r))
		if err == nil && n.Cluster.Algorithm != "" && (s.whole() || s.sel.Only == renew.Address(r.Name)) {
			ahead++
		}
	}
	return pki.NewStock(p.Random("keys"), cmp.Or(n.Cluster.Algorithm, pki.DefaultAlgorithm), ahead).Key
}
