package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/node"
	"kubeadm/internal/phase/finished"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world/journal"
)

// remember keeps other runs away and writes down what this one makes, so that a later one can
// go on with it. Only root can do that; preflight refuses all others.
func (p *program) remember(ctx context.Context, s *session, n *node.Node) error {
	root, err := isRoot(ctx, s.real)
	if err != nil || !root {
		return err
	}
	if s.store, err = p.Journal(n.Paths.Journal()); err != nil || !s.makes {
		return err
	}
	if err := s.open(ctx, s.store, n); err != nil {
		return errors.Join(err, s.close())
	}
	s.world = s.journal
	return nil
}

// recall lets a dry run see what earlier runs made; what it adds is forgotten.
func (p *program) recall(ctx context.Context, s *session, n *node.Node) error {
	root, err := isRoot(ctx, s.real)
	if err != nil || !root {
		return err
	}
	store, err := p.Journal(n.Paths.Journal())
	if err != nil {
		return err
	}
	past, err := journal.Copy(store)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if err := s.open(ctx, past, n); err != nil {
		return err
	}
	s.world = s.journal
	return nil
}

func isRoot(ctx context.Context, r state.Reader) (bool, error) {
	host, err := r.Host(ctx)
	return host.UserID == 0, err
}

// open opens the journal of runs of the same command with the same foundation. The journal of a finished run is
// cleared where another program has reset the machine since.
func (s *session) open(ctx context.Context, store journal.Store, n *node.Node) error {
	intent, err := digest(settled(n))
	if err != nil {
		return err
	}
	details, err := digest(outcomeOf(n))
	if err != nil {
		return err
	}
	run := journal.Run{Command: s.command, Intent: intent, Details: details}
	if s.journal, err = journal.Open(s.real, store, run); err != nil || !s.finished() {
		return err
	}
	reset, err := finished.IsReset(ctx, s.real, n.Local, s.journal.Recorded)
	if err != nil || !reset {
		return err
	}
	if err := store.Clear(); err != nil {
		return fmt.Errorf("clearing the journal: %w", err)
	}
	s.journal, err = journal.Open(s.real, store, run)
	return err
}

// foundation is what is settled once a run has begun: certificates and etcd's data hold it. All
// else may still be mended before the same command is given again.
type foundation struct {
	Name, Address              string
	Role                       node.Role
	BindPort                   int32
	Paths                      node.Paths
	Minor                      uint // of the Kubernetes version
	ClusterName, Endpoint      string
	ServiceSubnet, PodSubnet   string
	DNSDomain                  string
	SANs, ServerSANs, PeerSANs []string
	Algorithm                  pki.Algorithm
	EtcdData                   string
	ExternalEtcd               *node.ExternalEtcd
}

func settled(n *node.Node) foundation {
	c := n.Cluster
	target, _ := release.ParseTarget(c.Version) // which a machine that joins does not know yet
	return foundation{
		Name: n.Name, Address: n.Address, Role: n.Role, BindPort: n.BindPort, Paths: n.Paths,
		Minor: target.Minor(), ClusterName: c.Name, Endpoint: c.Endpoint,
		ServiceSubnet: c.ServiceSubnet, PodSubnet: c.PodSubnet, DNSDomain: c.DNSDomain,
		SANs: c.CertSANs, ServerSANs: c.Etcd.ServerCertSANs, PeerSANs: c.Etcd.PeerCertSANs,
		Algorithm: c.Algorithm, EtcdData: c.Etcd.DataDir, ExternalEtcd: c.Etcd.External,
	}
}

// outcome is all of an intent that shows in what a run leaves behind. Tokens, pins and
// endpoints are left out, and what is to be ignored: a run goes on though they changed.
type outcome struct {
	Name      string
	Role      node.Role
	Address   string
	BindPort  int32
	CRISocket string
	Taints    []corev1.Taint
	Args      []node.Arg
	Patches   string
	Paths     node.Paths
	Version   string // or the label that stands for one today, and for another one tomorrow
	Cluster   string // without the version
	Kubelet   *kubeletconfig.KubeletConfiguration
	KubeProxy *proxyconfig.KubeProxyConfiguration
}

func outcomeOf(n *node.Node) outcome {
	return outcome{
		Name: n.Name, Role: n.Role, Address: n.Address, BindPort: n.BindPort, CRISocket: n.CRISocket,
		Taints: n.Taints, Args: n.KubeletArgs, Patches: n.Patches, Paths: n.Paths,
		Version: cmp.Or(n.Cluster.Label, n.Cluster.Version), Cluster: versionless(n.Cluster.Document), Kubelet: n.Cluster.Kubelet.Config, KubeProxy: n.Cluster.KubeProxy.Config,
	}
}

// versionless is the ClusterConfiguration without its kubernetesVersion.
func versionless(document string) string {
	var rest strings.Builder
	for line := range strings.Lines(document) {
		if !strings.HasPrefix(line, "kubernetesVersion:") {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

// digest tells values apart.
func digest(of any) (string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("telling this run apart from others: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
