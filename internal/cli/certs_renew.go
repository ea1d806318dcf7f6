package cli

import (
	"cmp"
	"context"
	"crypto"

	"github.com/spf13/cobra"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/renew"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/run"
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

Components use the old certificate until they are restarted. To resume an interrupted command, re-run it.`,
		Example: "  kubeadm certs renew " + name,
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.renewCertificates(c, o, name)
		},
	}
	o.bind(c)
	return c
}

// restartText says what the user must do. Components read most of their certificates only when
// they start.
const restartText = `
The certificates are renewed. etcd and the three control plane components load them when they
start. To restart each, move its manifest out of /etc/kubernetes/manifests and back after 20 seconds.
`

func (p *program) renewCertificates(c *cobra.Command, o *certsOptions, name string) (err error) {
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
	if r.IsWhole() {
		r.Emit(engine.Printed, restartText)
	}
	return nil
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
