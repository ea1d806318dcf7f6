package cli

import (
	"cmp"
	"context"
	"crypto"

	"github.com/spf13/cobra"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/renew"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/run"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/workflow"
)

// allCertificates is the name for all certificates.
const allCertificates = "all"

func (p *program) certsRenew() *cobra.Command {
	c := newGroup("renew", "Renew certificates",
		p.renewCommand(allCertificates, "Renew all certificates of this control plane node"))
	c.Long = "Renew certificates of a control plane node. CAs are not renewed, and kubelets rotate their own certificates."
	for _, r := range pki.Renewables() {
		c.AddCommand(p.renewCommand(r.Name, "Renew "+r.Purpose))
	}
	return c
}

func (p *program) renewCommand(name, short string) *cobra.Command {
	o, subject := &certsOptions{}, "it is"
	restart := false
	if name == allCertificates {
		subject = "they are"
	}
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Long: short + ", even if " + subject + ` not about to expire.

New certificates keep the names, groups, addresses and usages of the old ones and get a new key. The algorithm of
the key is that of the cluster configuration, or that of the old key if the configuration cannot be read. The CA
on this machine signs them; certificates of an external CA are not renewed.

Some components use the old certificate until they are restarted. With --restart they are, and it is shown which
certificates are in use then. To resume an interrupted command, re-run it.`,
		Example: "  kubeadm certs renew " + name + " --restart",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.renewCertificates(c, o, name, !restart); err != nil || !restart {
				return err
			}
			return p.restartStale(c, o)
		},
	}
	o.bind(c)
	flagTargets{flag.Restart: &restart}.bind(c.Flags())
	return c
}

// restartText says what the user must do. Components read most of their certificates only when
// they start.
const restartText = `
The certificates are renewed. etcd and kube-apiserver load them without a restart, kube-controller-manager and
kube-scheduler when they start. To restart the components that need it: kubeadm certs renew all --restart
`

// renewCertificates renews one certificate or all of them. Afterwards it may show what is left to do.
func (p *program) renewCertificates(c *cobra.Command, o *certsOptions, name string,
	showNext bool) (err error) {
	ctx := c.Context()
	var sel engine.Selection
	if name != allCertificates {
		sel.Only = renew.Address(name)
	}
	r, err := run.Open(ctx, p.runHost(), run.Command{Name: "certs", Phases: workflow.Renew, Selection: sel})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	n, warnings, err := p.readClusterOrConfig(c, o, r)
	r.Warn(warnings...)
	if err != nil {
		return err
	}
	if err := r.Begin(ctx, n, config.RunOptions{}); err != nil {
		return err
	}
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Keys: p.keysToRenew(ctx, r, n)})
	if err := r.Execute(ctx, e); err != nil {
		return err
	}
	for _, warning := range keyPairWarnings(ctx, r.World(), n) {
		r.Emit(engine.Warned, warning)
	}
	if r.IsWhole() && showNext {
		r.Emit(engine.Printed, restartText)
	}
	return nil
}

// restartStale restarts the components that use a certificate from before its renewal.
func (p *program) restartStale(c *cobra.Command, o *certsOptions) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, p.runHost(), run.Command{Name: "certs", Phases: workflow.RestartStale})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	n, _, err := p.readClusterOrConfig(c, o, r) // its warnings were shown already
	if err != nil {
		return err
	}
	if n.Local, err = upgrade.ReadControlPlane(ctx, r.World(), n.Local); err != nil {
		return err
	}
	if err := r.Begin(ctx, n, config.RunOptions{}); err != nil {
		return err
	}
	return r.Execute(ctx, r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Admin: workflow.Admin(n.Local, "")}))
}

// keysToRenew returns private keys of the cluster's algorithm. They are generated ahead of need if
// it is known.
func (p *program) keysToRenew(ctx context.Context, r *run.Run,
	n *node.Node) func() (crypto.Signer, error) {
	ahead := 0
	for _, c := range pki.Renewables() {
		_, err := r.World().Stat(ctx, certstore.RenewablePath(n.Paths, c))
		if err == nil && n.Cluster.Algorithm != "" &&
			r.Runs(phaseindex.Address(renew.Address(c.Name))) {
			ahead++
		}
	}
	return pki.NewKeyPool(p.Random("keys"), cmp.Or(n.Cluster.Algorithm, pki.DefaultAlgorithm),
		ahead).Key
}
