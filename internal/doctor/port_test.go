package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// silentNetwork is a network in which no connection is answered.
type silentNetwork struct {
	state.Reader
}

func (silentNetwork) ServedCertificate(ctx context.Context, _ string) (*x509.Certificate, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentNetwork) List(context.Context, state.Query) ([]unstructured.Unstructured, error) {
	return nil, errors.New("no server")
}

// An address that does not answer within the time of a connection is unreachable. One for which the
// check had less time is not known.
func TestConnect(t *testing.T) {
	for limit, want := range map[time.Duration]error{4 * time.Second: context.DeadlineExceeded,
		time.Second: errNoTime, 0: errNoTime} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := connect(ctx, silentNetwork{}, "192.0.2.77:10250"); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", limit, err, want)
			}
		})
	}
}

// A member of etcd that does not answer takes no time from the connections to nodes, and what could not
// be tried is no finding.
func TestPortsWhileMembersDoNotAnswer(t *testing.T) {
	for isFast, want := range map[bool]int{true: 1, false: 0} { // whether the nodes are listed in time
		synctest.Test(t, func(t *testing.T) {
			peer := corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "192.0.2.77"}}}}
			m := &machine{hasEtcd: true, cluster: &cluster{}}
			m.Local = node.Local{Name: "cp1", Role: node.ControlPlane}
			m.cluster.nodes = func(context.Context, state.Reader) ([]corev1.Node, error) {
				if !isFast {
					time.Sleep(checkLimit - time.Second)
				}
				return []corev1.Node{peer}, nil
			}
			m.members = func(ctx context.Context, _ state.Reader) (etcdcluster.Health, error) {
				<-ctx.Done()
				return etcdcluster.Health{Members: []state.Member{{ID: 2, Name: "cp2",
					PeerURLs: []string{"https://192.0.2.77:2380"}}}}, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), checkLimit)
			defer cancel()
			rep := preflight.NewReport("PeerPorts")
			checkPorts(ctx, silentNetwork{}, rep, m)
			found := rep.Result(nil).Findings
			if len(found) != want || rep.Skipped() == "" {
				t.Errorf("%v: found %v, not checked %q", isFast, found, rep.Skipped())
			}
		})
	}
}

// The ports of peers are those that their Pods and Nodes tell.
func TestPortsOfPeers(t *testing.T) {
	s := newHealthyNode(t)
	add(`{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}},
  status: {conditions: [{type: Ready, status: "True"}], addresses: [{type: InternalIP, address: 192.0.2.77}],
    nodeInfo: {kubeletVersion: v1.37.1}, daemonEndpoints: {kubeletEndpoint: {Port: 10555}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-cp2, namespace: kube-system,
  labels: {component: kube-apiserver, tier: control-plane},
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "192.0.2.77:7443"}},
  spec: {nodeName: cp2, containers: [{name: c, image: "registry.k8s.io/kube-apiserver:v1.37.1"}]}}`)(t, s)
	d := s.diagnose(t)
	for _, want := range []string{"the kubelet of node cp2 at 192.0.2.77:10555 cannot be reached",
		"the API server of node cp2 at 192.0.2.77:7443 cannot be reached"} {
		if !strings.Contains(describeFindings(d), want) {
			t.Errorf("it does not find that %s:\n%s", want, describeFindings(d))
		}
	}
	served := &x509.Certificate{}
	s.world.RemoteCertificates = map[string]*x509.Certificate{"192.0.2.77:10555": served, "192.0.2.77:7443": served}
	if d := s.diagnose(t); hasFinding(d, "PeerPorts") {
		t.Errorf("it blames healthy peers:\n%s", describeFindings(d))
	}
}
