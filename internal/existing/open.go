package existing

import (
	"context"
	"crypto/x509"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/renewal"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// Options say how a command finds its node and the cluster.
type Options struct {
	// Kubeconfig is the file that the user named; empty for the default: admin.conf on a control
	// plane node, kubelet.conf on a worker.
	Kubeconfig string
	// OnlyControlPlane is set by commands that are refused on a worker: what to do there, such as
	// "on a worker: kubeadm upgrade node".
	OnlyControlPlane string
	// RemoveTemporary removes the temporary files that killed runs have left. The caller holds the lock of the machine.
	RemoveTemporary bool
	// Recover does that too, and finishes what a killed run has left on a control plane node.
	Recover bool
	// Simulated is set if the kubeconfig need not exist, since the cluster is simulated.
	Simulated bool
}

// Machine is this machine as a node of its cluster.
type Machine struct {
	node.Local                // by its files
	As         state.Identity // as whom it accesses the cluster
}

// Open reads what this machine is, finds as whom to access its cluster, and finishes what a killed run
// left. It does not ask the API server, which may be down until then. Of the Env's Local the paths and
// the time limits are needed; with Recover, also Keys.
func Open(ctx context.Context, e *engine.Env, o Options) (m Machine, err error) {
	if m.Local, err = ReadMachine(ctx, e.World, e.Local); err != nil {
		return m, err
	}
	if m.Role != node.ControlPlane && o.OnlyControlPlane != "" {
		return m, problem.New(
			fmt.Errorf("this machine is not a control plane node: %s does not exist",
				m.Paths.Manifest(release.APIServer)),
			"run the command on a control plane node; "+o.OnlyControlPlane)
	}
	file := o.Kubeconfig
	if file == "" && m.Role != node.ControlPlane {
		file = m.Paths.KubeletKubeconfig()
	}
	m.As = Admin(m.Local, file)
	if !o.Simulated {
		exists, err := state.Exists(ctx, e.World, m.As.Kubeconfig)
		if err == nil && !exists {
			err = NewNoKubeconfig(m.As.Kubeconfig)
		}
		if err != nil {
			return m, err
		}
	}
	if o.Kubeconfig != "" {
		if warning := CheckClient(ctx, e.World, o.Kubeconfig); warning != "" {
			e.Named("kubeconfig").Warn("%s", warning)
		}
	}
	if o.RemoveTemporary || o.Recover {
		RemoveTemporary(ctx, e, m.Paths)
	}
	if !o.Recover || m.Role != node.ControlPlane {
		return m, nil
	}
	if err := etcddata.CheckNone(ctx, e.World, m.Paths); err != nil {
		return m, err
	}
	return m, Recover(ctx, e, m.Local)
}

// Node reads the desired state of the machine, as ReadNode does, and shows the warnings.
func (m Machine) Node(ctx context.Context, e *engine.Env, target release.Target) (*node.Node, error) {
	n, warnings, err := ReadNode(ctx, e.Reader(), m.As, m.Local, target)
	for _, text := range warnings {
		e.Warn("%s", text)
	}
	return n, err
}

// Recover finishes what a killed run has left on a control plane node: key pairs of which only a part
// is written, and replacements of static Pods. Commands that replace or restart static Pods call it
// before they ask the API server, which may be down until then.
func Recover(ctx context.Context, e *engine.Env, local node.Local) error {
	if err := RepairKeyPairs(ctx, e, local); err != nil {
		return err
	}
	return RecoverStaticPods(ctx, e, local)
}

// RepairKeyPairs completes key pairs of which a killed run has written only a part.
func RepairKeyPairs(ctx context.Context, e *engine.Env, local node.Local) error {
	return renewal.Repair(ctx, ownEnv(e, local))
}

// RecoverStaticPods finishes the replacements of static Pods that a killed run has left.
func RecoverStaticPods(ctx context.Context, e *engine.Env, local node.Local) error {
	return staticpod.Replacement{Node: &node.Node{Local: local}}.Recover(ctx, ownEnv(e, local))
}

// ownEnv is an Env for this machine as it is.
func ownEnv(e *engine.Env, local node.Local) *engine.Env {
	own := *e
	own.Local, own.Node = local, engine.Resolved(&node.Node{Local: local})
	return &own
}

// NewNoKubeconfig is the error of a command whose kubeconfig does not exist.
func NewNoKubeconfig(file string) error {
	return problem.New(fmt.Errorf("kubeconfig %s does not exist", file),
		"set --kubeconfig to an administrator's kubeconfig")
}

// Admin is the user that a command is towards this machine's own API server: that of admin.conf.
// Another kubeconfig, where the user names one, is taken as it is; so is admin.conf by a command
// that knows no API server of this machine, such as reset.
func Admin(l node.Local, kubeconfig string) state.Identity {
	as, own := state.Identity{Kubeconfig: kubeconfig}, l.Paths.Kubeconfig("admin.conf")
	if kubeconfig == "" {
		as.Kubeconfig = own
	}
	if as.Kubeconfig == own && l.Address != "" {
		as.Server = l.LocalServerURL()
	}
	return as
}

// CheckClient returns a warning if the client certificate of a kubeconfig is not signed by a CA that the
// file itself trusts, as one of another cluster is. It may still be right: clients may have a CA of
// their own. A file that cannot be read is reported when it is used.
func CheckClient(ctx context.Context, r state.Reader, file string) (warning string) {
	read := func(name string) ([]byte, error) { return r.ReadFile(ctx, name) }
	data, err := read(file)
	if err != nil {
		return ""
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return ""
	}
	config.ResolvePaths(path.Dir(file))
	certs, err := config.ClientPair(read)
	if err != nil || certs == nil || pki.CheckPeriod(certs[0], r.Now()) != nil ||
		config.EmbedFiles(read) != nil {
		return ""
	}
	trusted, err := config.EmbeddedCAs()
	signs := func(ca *x509.Certificate) bool { return pki.VerifyChain(certs, ca, r.Now()) == nil }
	if err != nil || len(trusted) == 0 || slices.ContainsFunc(trusted, signs) {
		return ""
	}
	return fmt.Sprintf(
		"%s: its client certificate %q is not signed by the CA that the file trusts, so the API server may reject it",
		untrusted.Line(file), untrusted.Line(certs[0].Subject.CommonName))
}
