package cli

import (
	"cmp"
	"context"
	"crypto"
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/renew"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
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

kube-controller-manager and kube-scheduler use the old certificate until they are restarted; etcd and
kube-apiserver read a renewed one by themselves. --restart restarts the components that use an old certificate, and
prints which ones they use then. To resume an interrupted command, re-run it.`,
		Example: "  kubeadm certs renew " + name + " --restart",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.renewCertificates(c, o, name, restart)
		},
	}
	o.bind(c)
	flagTargets{flag.Restart: &restart}.bind(c.Flags())
	return c
}

// restartText says what the user must do.
const restartText = `
The certificates are renewed. etcd and kube-apiserver read them by themselves, kube-controller-manager and
kube-scheduler when they start. Restart those two, or re-run the command with --restart, which renews once more
and restarts the components that need it.
`

// renewCertificates renews one certificate or all of them, and may restart what uses an old one.
func (p *program) renewCertificates(c *cobra.Command, o *certsOptions, name string,
	restart bool) (err error) {
	ctx := c.Context()
	var sel engine.Selection
	if name != allCertificates {
		sel.Only = renew.Address(name)
	}
	r, err := run.Open(ctx, p.runHost(),
		run.Command{Name: "certs", Phases: workflow.Renew, Selection: sel})
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
	switch {
	case restart:
		return p.restartStale(ctx, r, n, o)
	case r.IsWhole():
		r.Emit(engine.Printed, restartText)
	}
	return nil
}

// restartStale restarts the components that use a certificate from before its renewal.
func (p *program) restartStale(ctx context.Context, r *run.Run, n *node.Node,
	o *certsOptions) (err error) {
	if n.Local, err = upgrade.ReadControlPlane(ctx, r.World(), n.Local); err != nil {
		return err
	}
	as := p.readIdentity(ctx, r.World(), o.kubeconfig)
	as.Server = n.LocalServerURL()
	exists, err := state.Exists(ctx, r.World(), as.Kubeconfig)
	if err == nil && !exists && n.Role == node.ControlPlane {
		err = problem.New("", fmt.Errorf("no component was restarted: kubeconfig %s does not exist",
			as.Kubeconfig), "set --kubeconfig to that of an administrator")
	}
	if err != nil {
		return err
	}
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Admin: func(context.Context) (state.Identity, error) { return as, nil }})
	return r.ExecutePhases(ctx, e, workflow.RestartStale, engine.Selection{})
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
