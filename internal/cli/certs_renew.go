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
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/run"
	"kubeadm/internal/workflow"
)

// allCertificates stands for all certificates.
const allCertificates = "all"

func (p *program) certsRenew() *cobra.Command {
	c := newGroup("renew", "Renew certificates", p.renewCommand(allCertificates, "Renew all certificates of this control plane"))
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
		Args:    refuseArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return p.renewCertificates(c, o, name) },
	}
	o.values().bind(c.Flags())
	return c
}

// restart is what is left to the user to do. Components read most of their certificates only when they start.
const restart = `
The certificates are renewed. etcd and the three components of the control plane
take them up when they start: move each manifest out of /etc/kubernetes/manifests for a moment.
`

func (p *program) renewCertificates(c *cobra.Command, o *certsOptions, name string) (err error) {
	ctx := c.Context()
	var sel flow.Selection
	if name != allCertificates {
		sel.Only = renew.Address(name)
	}
	r, err := p.openRun(ctx, run.Command{Name: "certs", Phases: workflow.Renew, Selection: sel})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	n, warnings, err := p.readClusterOrConfig(c, o, r)
	r.Warn(warnings...)
	if err != nil {
		return err
	}
	if err := r.Begin(ctx, n, config.Run{}); err != nil {
		return err
	}
	e := r.NewEnv(flow.Env{Local: n.Local, Node: flow.Resolved(n), Keys: p.keysToRenew(ctx, r, n)})
	if err := r.Execute(ctx, e); err != nil {
		return err
	}
	for _, warning := range keyPairWarnings(ctx, r.World(), n) {
		r.Emit(flow.Warned, warning)
	}
	if r.IsWhole() {
		r.Emit(flow.Printed, restart)
	}
	return nil
}

// keysToRenew returns private keys of the cluster's algorithm. They are generated ahead of need if it is known.
func (p *program) keysToRenew(ctx context.Context, r *run.Run, n *node.Node) func() (crypto.Signer, error) {
	ahead := 0
	for _, c := range pki.Renewables() {
		_, err := r.World().Stat(ctx, certstore.RenewablePath(n.Paths, c))
		if err == nil && n.Cluster.Algorithm != "" && r.Runs(phaseindex.Address(renew.Address(c.Name))) {
			ahead++
		}
	}
	return pki.NewStock(p.Random("keys"), cmp.Or(n.Cluster.Algorithm, pki.DefaultAlgorithm), ahead).Key
}
