package cli

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
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
		Example: `  # as a worker
  kubeadm join 192.0.2.10:6443 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:...

  # as one more control plane, with the certificates that another one lends
  kubeadm join cluster.example:6443 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:... --control-plane --certificate-key ...

  # by a kubeconfig that tells where the cluster is
  kubeadm join --discovery-file cluster-info.yaml --tls-bootstrap-token abcdef.0123456789abcdef`,
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
		flag.IgnorePreflightErrors, flag.NodeName, flag.Patches, flag.ReplaceMember, flag.SkipPhases, flag.TLSBootstrapToken, flag.Token}
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
		flag.ReplaceMember:         &o.ReplaceMembers,
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
		if s.finished() {
			return s.joinAgain(ctx, e)
		}
		stock := &keysOnceKnown{program: p, session: s}
		e.Keys, e.Admin = stock.key, workflow.JoinAdmin(e)
		e.Node = memoised(func(ctx context.Context) (*node.Node, error) {
			n, err := discovery.Node(ctx, e)
			if err == nil {
				stock.known(ctx, n)
			}
			return n, err
		})
		if err := p.standIn(ctx, s, e); err != nil {
			return err
		}
		if err := s.run(ctx, e); err != nil || !s.whole() {
			return err
		}
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		localEtcd, _ := node.LocalEtcd(n)
		s.say(flow.Printed, joinedAs(n.Local, localEtcd && !slices.Contains(s.sel.Skip, "etcd-join")))
		return nil
	})
}

// joinAgain shows the closing text of a join that has finished before, and changes nothing.
func (s *session) joinAgain(ctx context.Context, e *flow.Env) error {
	run, local := s.finishedRun(), e.Local
	s.phases, s.sel = workflow.JoinAgain(run), flow.Selection{}
	if err := s.run(ctx, e); err != nil {
		return err
	}
	s.say(flow.Printed, joinedAs(local, run.Recorded(change.FileTarget(local.Paths.Manifest(manifest.Etcd)))))
	return nil
}

// joinedAs is the closing text of a join; etcd: this machine has a member of etcd.
func joinedAs(l node.Local, etcd bool) string {
	if l.Role == node.Worker {
		return joined
	}
	member := ""
	if etcd {
		member = "\n  * etcd has one more voting member."
	}
	return fmt.Sprintf(joinedControlPlane, member, l.Paths.Kubeconfig("admin.conf"), "$(id -u):$(id -g)")
}

// keysOnceKnown makes private keys of the cluster's algorithm, which a joining machine learns only when it has found it.
type keysOnceKnown struct {
	program *program
	session *session

	mu   sync.Mutex
	make func() (crypto.Signer, error)
}

// known begins to make the keys that a control plane is going to need.
func (k *keysOnceKnown) known(ctx context.Context, n *node.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ahead := 0
	if n.Role == node.ControlPlane {
		ahead = k.session.missingKeys(ctx, n)
	}
	k.make = pki.NewStock(k.program.Random("keys"), n.Cluster.Algorithm, ahead).Key
}

func (k *keysOnceKnown) key() (crypto.Signer, error) {
	k.mu.Lock()
	make := k.make
	k.mu.Unlock()
	if make == nil {
		return nil, errors.New("no key can be made before the cluster is known")
	}
	return make()
}

// joined is the closing text of a worker's join. Scripts wait for its first sentence (test/parity/phrases).
const joined = `
This node has joined the cluster:
  * The API server has signed the kubelet's certificate, and the kubelet uses it.

To list the nodes, run on a control plane:

  kubectl get nodes
`

// joinedControlPlane is that of a control plane's: what etcd gained, where admin.conf is, and who will own its copy.
const joinedControlPlane = `
This node has joined the cluster as a control plane:
  * The API server has signed the kubelet's certificate, and the kubelet uses it.
  * The node has the labels and taints of a control plane, and its components are healthy.%s

To administer the cluster from here as an ordinary user:
  mkdir -p $HOME/.kube
  sudo cp -i %s $HOME/.kube/config
  sudo chown %s $HOME/.kube/config

To see all nodes:
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
	o.Inside = c.Flag(string(flag.DiscoveryFile)) == nil
	return config.Join(file, o.JoinFlags, facts)
}
