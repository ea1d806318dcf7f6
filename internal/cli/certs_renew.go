package cli

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/renewal"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/workflow"
)

// allCertificates is the name for all certificates.
const allCertificates = "all"

func newRenewCommand(p *program) *cobra.Command {
	c := newGroup("renew", "Renew certificates",
		newRenewOneCommand(p, allCertificates, "Renew all of this control plane node's certificates"))
	c.Long = `Renew a control plane node's certificates, but not its CAs.

Kubelets rotate their own certificates. If a kubelet can no longer rotate its own certificate, run
"kubeadm certs renew kubelet.conf" on that node; this works on workers too, with --token. On a control plane node,
"kubeadm certs renew all --restart" also replaces the kubelet's certificate if it has expired.`
	c.AddCommand(newRenewKubeletCommand(p))
	for _, r := range pki.Renewables() {
		c.AddCommand(newRenewOneCommand(p, r.Name, "Renew "+r.Purpose))
	}
	return c
}

func newRenewOneCommand(p *program, name, short string) *cobra.Command {
	o, subject, long := &renewOptions{}, "it is", ""
	if name == allCertificates {
		subject, long = "they are", recoveryText
	}
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Long: short + ", even if " + subject + ` not about to expire.

New certificates keep the names, groups, addresses and usages of the old ones, and have new keys. The cluster
configuration sets the algorithm of the keys; if it cannot be read, the algorithm of the old key is used. The CA on
this machine signs the certificates; certificates of an external CA are not renewed.

kube-controller-manager and kube-scheduler use the old certificate until they are restarted, while etcd and
kube-apiserver pick up a renewed one by themselves. With --restart, the command restarts the components that use an
old certificate, then prints which certificates they use. It also replaces the kubelet's client certificate if it has
expired. To resume an interrupted command, re-run it.

With an external CA, --csr-only --csr-dir DIR writes a key and a certificate signing request for each certificate.
Without --csr-only, the command reads the signed certificates from that directory. It compares each one with the
certificate to be replaced before it replaces any. Certificates of CAs on this machine are renewed as usual.` + long,
		Example: "  kubeadm certs renew " + name + " --restart",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return renewCertificates(p, c, o, name)
		},
	}
	o.bind(c)
	flagTargets{flag.Restart: &o.restart, flag.CSRDir: &o.csrDir,
		flag.CSROnly: &o.csrOnly}.bind(c.Flags())
	return withRunOutput(p, c)
}

// renewOptions are the flags of a renewal.
type renewOptions struct {
	certsOptions
	restart, csrOnly bool
	csrDir           string
}

// check refuses flags that do not fit together.
func (o *renewOptions) check() error {
	switch {
	case o.csrOnly && o.csrDir == "":
		return problem.New(fmt.Errorf("--%s needs a directory", flag.CSROnly),
			fmt.Sprintf("set --%s", flag.CSRDir))
	case o.csrOnly && o.restart:
		return problem.New(fmt.Errorf("--%s renews nothing, so there is nothing to restart", flag.CSROnly),
			fmt.Sprintf("leave out --%s", flag.Restart))
	case o.csrDir != "" && !path.IsAbs(o.csrDir):
		return problem.New(fmt.Errorf("--%s %q is not an absolute path", flag.CSRDir, o.csrDir),
			"set the absolute path of the directory")
	}
	return nil
}

// recoveryText is in the help of the command for all certificates.
const recoveryText = `

To recover a cluster whose certificates have expired, run the command with --restart on the control plane nodes, one
at a time. Then run the command that it prints on each worker.`

// restartText says what the user must do.
const restartText = `
etcd and kube-apiserver pick up renewed certificates by themselves; kube-controller-manager and kube-scheduler need
a restart. Restart these two, or re-run the command with --restart, which renews the certificates once more and
restarts the components that need it.
`

// renewCertificates renews one certificate or all of them, and may restart what uses an old one.
func renewCertificates(p *program, c *cobra.Command, o *renewOptions, name string) (err error) {
	ctx := c.Context()
	if err := o.check(); err != nil {
		return err
	}
	command := run.Command{Name: "certs", Phases: workflow.Renew}
	phase := phaseindex.Renew
	if o.csrOnly {
		command.Phases, phase = workflow.RequestRenewal, phaseindex.Request
	}
	if name != allCertificates {
		command.Selection.Only = string(phase.Of(name))
	}
	r, err := run.Open(ctx, runHost(p), command)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	if o.restart {
		if err := finishReplacements(ctx, r); err != nil {
			return err
		}
	}
	settings, err := readClusterOrConfig(p, c, &o.certsOptions, r)
	r.Warn(settings.warnings...)
	if err != nil {
		return err
	}
	n := settings.Node
	if err := checkClock(ctx, r, &o.certsOptions); err != nil {
		return err
	}
	n.Paths.Requests = o.csrDir
	if err := r.Begin(ctx, n, config.RunOptions{}); err != nil {
		return err
	}
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Keys: keysToRenew(ctx, p.NewKey, r, n)})
	existing.RemoveTemporary(ctx, e.Named("renew"), n.Paths)
	var unreadable error
	if name == allCertificates {
		command.Selection.Skip, unreadable = findUnreadable(ctx, r, n, phase)
	}
	if o.csrDir != "" && !o.csrOnly {
		if err := checkAnswers(ctx, e, command.Selection); err != nil {
			return err
		}
	}
	if err := r.ExecutePhases(ctx, e, command.Phases, command.Selection); err != nil {
		return errors.Join(err, unreadable)
	}
	for _, warning := range keyPairWarnings(ctx, r.World(), n) {
		r.Emit(engine.Warned, warning)
	}
	switch {
	case o.restart:
		err = restartStale(ctx, p, r, n, &o.certsOptions)
	case o.csrOnly:
		err = explainRequests(ctx, r, e, command.Selection, name)
	case r.IsWhole():
		r.Emit(engine.Printed, restartText)
	}
	return errors.Join(err, unreadable)
}

// findUnreadable returns the phases of the certificates that cannot be read, and why: one odd file does
// not keep the others from being renewed.
func findUnreadable(ctx context.Context, r *run.Run, n *node.Node,
	phase phaseindex.Address) (phases []string, unreadable error) {
	var errs []error
	local, _ := node.HasLocalEtcd(n)
	for _, c := range pki.Renewables() {
		if c.LocalEtcdOnly() && !local {
			continue
		}
		if _, err := certstore.ReadRenewable(ctx, r.World(), n.Paths, c); err != nil {
			phases = append(phases, string(phase.Of(c.Name)))
			errs = append(errs, fmt.Errorf("%s was skipped: %w", c.Name, err))
		}
	}
	return phases, errors.Join(errs...)
}

// replacementLimit is how long static Pods of an interrupted run may take to become healthy before
// certificates are renewed, which may be what they need.
const replacementLimit = time.Minute

// finishReplacements finishes the replacements of static Pods that a killed run has left. If a
// component does not become healthy, its certificates may have expired: they are renewed anyway.
func finishReplacements(ctx context.Context, r *run.Run) error {
	local, err := existing.ReadControlPlane(ctx, r.World(), config.NewLocal())
	if err != nil || local.Role != node.ControlPlane {
		return err
	}
	if err := etcddata.CheckNone(ctx, r.World(), local.Paths); err != nil {
		return err
	}
	local.Timeouts.Upgrade = min(local.Timeouts.Upgrade, replacementLimit)
	e := r.NewEnv(engine.Env{Local: local}).Named("renew")
	err = staticpod.Replacement{Node: &node.Node{Local: local}}.Recover(ctx, e)
	if err != nil && ctx.Err() == nil {
		e.Warn("%v; renewing the certificates anyway", err)
		return nil
	}
	return err
}

// requestsText says what to do with the requests.
const requestsText = `
Have the external CA sign the requests (.csr) with the usages of the current certificates, and save each certificate
as .crt next to its request. Then run:

  kubeadm certs renew %s --csr-dir %s --restart
`

// explainRequests says what to do with the requests, or that there is none.
func explainRequests(ctx context.Context, r *run.Run, e *engine.Env, sel engine.Selection,
	name string) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	text := "\nNo request was written: no certificate is signed by an external CA.\n"
	for _, c := range pki.Renewables() {
		if !sel.Runs(string(phaseindex.Request.Of(c.Name))) {
			continue
		}
		needed, err := renewal.NeedsRequest(ctx, e, c)
		if err != nil {
			return err
		}
		if needed {
			text = fmt.Sprintf(requestsText, name, n.Paths.Requests)
		}
	}
	r.Emit(engine.Printed, text)
	return nil
}

// checkAnswers checks all certificates of external CAs before one is replaced.
func checkAnswers(ctx context.Context, e *engine.Env, sel engine.Selection) error {
	var errs []error
	for _, c := range pki.Renewables() {
		if sel.Runs(string(phaseindex.Renew.Of(c.Name))) {
			errs = append(errs, renewal.CheckAnswer(ctx, e, c))
		}
	}
	return errors.Join(errs...)
}

// restartStale restarts the components that use a certificate from before its renewal.
func restartStale(ctx context.Context, p *program, r *run.Run, n *node.Node,
	o *certsOptions) (err error) {
	if err := completeMachine(ctx, r, n); err != nil {
		return err
	}
	as := readIdentity(ctx, p, r.World(), o.kubeconfig)
	as.Server = n.LocalServerURL()
	exists, err := state.Exists(ctx, r.World(), as.Kubeconfig)
	if err == nil && !exists && n.Role == node.ControlPlane {
		err = problem.New(fmt.Errorf("no component was restarted: kubeconfig %s does not exist",
			as.Kubeconfig), "set --kubeconfig to an administrator's kubeconfig")
	}
	if err != nil {
		return err
	}
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Admin: engine.As(as)})
	return r.ExecutePhases(ctx, e, workflow.RestartStale, engine.Selection{})
}

// checkClock is an error if the clock of this machine is wrong by that of the cluster's API server.
func checkClock(ctx context.Context, r *run.Run, o *certsOptions) error {
	data, err := r.World().ReadFile(ctx, o.kubeconfig)
	if err != nil {
		return nil
	}
	admin, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil // reported when the file is used
	}
	endpoint, err := admin.Endpoint()
	if err != nil {
		return nil
	}
	return certstore.CheckClock(ctx, r.World(), endpoint)
}

// keysToRenew returns private keys of the cluster's algorithm. They are generated ahead of need if
// it is known.
func keysToRenew(ctx context.Context, generate func(pki.Algorithm) (crypto.Signer, error), r *run.Run,
	n *node.Node) func(pki.Need) (crypto.Signer, error) {
	ahead := 0
	for _, c := range pki.Renewables() {
		_, err := r.World().Stat(ctx, certstore.RenewablePath(n.Paths, c))
		if err == nil && n.Cluster.Algorithm != "" &&
			r.Runs(phaseindex.Renew.Of(c.Name)) {
			ahead++
		}
	}
	return pki.NewKeyPool(ctx, generate, cmp.Or(n.Cluster.Algorithm, pki.DefaultAlgorithm),
		ahead, ahead).Key
}
