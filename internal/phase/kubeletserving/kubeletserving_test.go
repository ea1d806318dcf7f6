package kubeletserving_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/kubeletserving"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// scene is a cluster with Node worker1.
type scene struct {
	*fake.World
	e       *engine.Env
	lines   []string       // the output
	onAwait func()         // called when a wait begins
	awaited []error        // the results of all waits
	failing string         // kind of the objects that cannot be read
	listed  map[string]int // how often objects of each kind were listed
	slow    time.Duration  // how long a list takes
	spent   time.Duration  // by lists
}

func (s *scene) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if s.failing == ref.GVK.Kind {
		return nil, errors.New("connection refused")
	}
	return s.World.Object(ctx, ref)
}

func (s *scene) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	if s.failing == q.GVK.Kind {
		return nil, errors.New("connection refused")
	}
	s.listed[q.GVK.Kind]++
	s.spent += s.slow
	return s.World.List(ctx, q)
}

func (s *scene) Await(ctx context.Context, c world.Condition) error {
	s.onAwait()
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, s) }
	err := s.World.Await(ctx, c)
	s.awaited = append(s.awaited, err)
	return err
}

func newScene(t *testing.T) *scene {
	s := &scene{World: fake.New(), listed: map[string]int{}}
	from, readings := s.Now(), 0
	s.Clock = func() time.Time { readings++; return from.Add(time.Duration(readings)*time.Second + s.spent) }
	s.RemoteAPIServer = true
	s.e = engine.New(engine.Env{World: s,
		Admin: func(context.Context) (state.Identity, error) {
			return state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}, nil
		},
		Emit: func(e engine.Event) { s.lines = append(s.lines, string(e.Kind)+": "+e.Text) },
	})
	s.Interfaces = []state.Address{{IP: "192.0.2.10", Bits: 24, Interface: "eth0", DefaultRoute: true},
		{IP: "2001:db8::10", Bits: 64, Interface: "eth0"}, {IP: "10.244.0.1", Bits: 24, Interface: "cni0"}}
	if err := s.AddObjects(clusterObjects); err != nil {
		t.Fatal(err)
	}
	s.apply(t, newNode("192.0.2.21"))
	return s
}

// clusterObjects are a control plane of two nodes, the second in another network, and a worker.
const clusterObjects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: kubeadm-config, namespace: kube-system}, data: {ClusterConfiguration: "{
  apiVersion: kubeadm.k8s.io/v1beta4, kind: ClusterConfiguration, kubernetesVersion: v1.37.1,
  controlPlaneEndpoint: 'api.example.com:6443', apiServer: {certSANs: [alias.example.com, 192.0.2.99, '*.wild.example.com', cp1, 192.0.2.10]},
  networking: {serviceSubnet: '10.96.0.0/12,fd00:96::/112', podSubnet: '10.244.0.0/16', dnsDomain: cluster.local},
  etcd: {external: {endpoints: ['https://192.0.2.51:2379'], caFile: /ca, certFile: /crt, keyFile: /key}}}"}}
---
{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: more}, spec: {cidrs: [192.0.2.192/28]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
  metadata: {name: kubernetes, namespace: default, labels: {kubernetes.io/service-name: kubernetes}},
  endpoints: [{addresses: [192.0.2.10]}, {addresses: [198.51.100.11]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: metrics, namespace: monitoring}, spec: {clusterIP: 10.96.0.7}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: default}, spec: {clusterIP: 10.96.0.8}}
---
{apiVersion: v1, kind: Pod, metadata: {name: etcd-cp1, namespace: kube-system, labels: {component: etcd, tier: control-plane},
  annotations: {kubeadm.kubernetes.io/etcd.advertise-client-urls: "https://192.0.2.12:2379"}}, spec: {nodeName: cp1}}
---
{apiVersion: v1, kind: Node, metadata: {name: cp1, labels: {node-role.kubernetes.io/control-plane: ""}},
  status: {addresses: [{type: InternalIP, address: 192.0.2.10}, {type: Hostname, address: cp1}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}},
  status: {addresses: [{type: InternalIP, address: 198.51.100.11}, {type: Hostname, address: cp2},
    {type: InternalDNS, address: cp2.example.com}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: cp3.wild.example.com, labels: {node-role.kubernetes.io/control-plane: ""}},
  status: {addresses: [{type: Hostname, address: cp3.wild.example.com}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1.wild.example.com},
  status: {addresses: [{type: Hostname, address: n1.wild.example.com}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: worker2},
  status: {addresses: [{type: InternalIP, address: 192.0.2.22}, {type: Hostname, address: worker2}, 7, {type: Hostname}]}}
`

// newNode is Node worker1 with an address.
func newNode(address string) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "worker1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address},
			{Type: corev1.NodeInternalIP, Address: "2001:db8::21"},
			{Type: corev1.NodeHostName, Address: "worker1"},
		}},
	}
}

// apply stores an object with its status.
func (s *scene) apply(t *testing.T, o state.Object) {
	t.Helper()
	if err := s.PutObject(o); err != nil {
		t.Fatal(err)
	}
}

// request is a request of the kubelet of worker1, with the edits.
func request(t *testing.T, name string, edit func(*certv1.CertificateSigningRequest,
	*x509.CertificateRequest)) *certv1.CertificateSigningRequest {
	t.Helper()
	asked := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:worker1",
			Organization: []string{"system:nodes"}},
		DNSNames:    []string{"worker1"},
		IPAddresses: []net.IP{net.ParseIP("192.0.2.21"), net.ParseIP("2001:db8::21")},
	}
	csr := &certv1.CertificateSigningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1",
			Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: certv1.CertificateSigningRequestSpec{
			SignerName: certv1.KubeletServingSignerName,
			Username:   "system:node:worker1",
			Groups:     []string{"system:nodes", "system:authenticated"},
			Usages:     []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth},
		},
	}
	if edit != nil {
		edit(csr, asked)
	}
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, asked, key)
	if err != nil {
		t.Fatal(err)
	}
	if csr.Spec.Request == nil {
		csr.Spec.Request = pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	return csr
}

// conditions are the types of a request's conditions.
func (s *scene) conditions(t *testing.T, name string) string {
	t.Helper()
	u, err := s.Object(t.Context(), state.Ref{Name: name,
		GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")})
	if err != nil {
		t.Fatal(err)
	}
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var kinds []string
	for _, c := range all {
		kinds = append(kinds, c.(map[string]any)["type"].(string))
	}
	return strings.Join(kinds, " ")
}

func TestHonestRequestIsApproved(t *testing.T) {
	s := newScene(t)
	s.apply(t, request(t, "csr-1", nil))
	other := request(t, "csr-2", nil) // of another signer
	other.Spec.SignerName = certv1.KubeAPIServerClientKubeletSignerName
	s.apply(t, other)
	denied := request(t, "csr-3", nil)
	denied.Status.Conditions = []certv1.CertificateSigningRequestCondition{
		{Type: certv1.CertificateDenied, Status: corev1.ConditionTrue}}
	s.apply(t, denied)
	phases := []engine.Phase{kubeletserving.Approve(node.AllowedNames{})}
	for range 2 { // the second run finds nothing to do
		if err := engine.Run(t.Context(), s.e, phases, engine.Selection{}); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"csr-1": "Approved", "csr-2": "",
			"csr-3": "Denied"} {
			if got := s.conditions(t, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestForgedRequestStaysPending(t *testing.T) {
	type edit = func(*certv1.CertificateSigningRequest, *x509.CertificateRequest)
	for name, c := range map[string]struct {
		edit edit
		want string
	}{
		"address of another machine": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.IPAddresses = append(asked.IPAddresses, net.ParseIP("192.0.2.10"))
		}, `it asks for "192.0.2.10", an address of Node cp1`},
		"name of a Service": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.DNSNames = []string{"kubernetes.default.svc"}
		}, `it asks for "kubernetes.default.svc"`},
		"address as a name": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.DNSNames = []string{"192.0.2.21"}
		}, `it asks for "192.0.2.21"`},
		"escape sequence in a name": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.DNSNames = []string{"a\x1b[2Jb"}
		}, `it asks for "a\x1b[2Jb"`},
		"other kubelet": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.Subject.CommonName = "system:node:cp1"
		}, `its common name "system:node:cp1" is not the user`},
		"unknown Node": {func(csr *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			csr.Spec.Username, asked.Subject.CommonName = "system:node:ghost", "system:node:ghost"
		}, `there is no Node "ghost"`},
		"user whose name has a slash": {func(csr *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			csr.Spec.Username, asked.Subject.CommonName = "system:node:a/b", "system:node:a/b"
		}, `"a/b" cannot be the name of a Node`},
		"user whose name is a path": {func(csr *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			csr.Spec.Username, asked.Subject.CommonName = "system:node:..", "system:node:.."
		}, `".." cannot be the name of a Node`},
		"address that its Node lacks": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.IPAddresses = append(asked.IPAddresses, net.ParseIP("192.0.2.33"))
		}, `it asks for "192.0.2.33", but the addresses of the Node are`},
		"many addresses": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			for i := range byte(40) {
				asked.IPAddresses = append(asked.IPAddresses, net.IPv4(192, 0, 2, 100+i))
			}
		}, "it asks for 43 names and addresses, but a kubelet has at most 32"},
		"ordinary user": {func(csr *certv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			csr.Spec.Username = "jane"
		}, "the user is not a kubelet"},
		"user without the group": {func(csr *certv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			csr.Spec.Groups = []string{"system:authenticated"}
		}, "the user is not in group system:nodes"},
		"another organization": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.Subject.Organization = []string{"system:nodes", "system:masters"}
		}, `its organization is "system:nodes, system:masters"`},
		"client usage": {func(csr *certv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			csr.Spec.Usages = append(csr.Spec.Usages, certv1.UsageClientAuth)
		}, `usage "client auth" does not belong in a serving certificate`},
		"no server usage": {func(csr *certv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			csr.Spec.Usages = []certv1.KeyUsage{certv1.UsageDigitalSignature}
		}, `it does not have usage "server auth"`},
		"no names": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.DNSNames, asked.IPAddresses = nil, nil
		}, "it asks for neither a name nor an address"},
		"email address": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.EmailAddresses = []string{"a@example.com"}
		}, "it asks for an email address"},
		"URI": {func(_ *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
			asked.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}}
		}, "it asks for a URI"},
		"no request": {func(csr *certv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			csr.Spec.Request = []byte("none")
		}, "no certificate request in PEM form"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.apply(t, request(t, "forged", c.edit))
			s.apply(t, request(t, "honest", nil))
			err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})},
				engine.Selection{})
			if err == nil || !strings.Contains(err.Error(), "1 of 2 pending requests are not approved") {
				t.Errorf("the error is %v", err)
			}
			if got := s.conditions(t, "forged"); got != "" {
				t.Errorf("the forged request is %s", got)
			}
			if got := s.conditions(t, "honest"); got != "Approved" {
				t.Errorf("the honest request is %q", got)
			}
			if said := strings.Join(s.lines, "\n"); !strings.Contains(said, c.want) {
				t.Errorf("it does not say %q:\n%s", c.want, said)
			}
		})
	}
}

// A request that replaces the one that was checked is not approved.
func TestReplacedRequestIsNotApproved(t *testing.T) {
	s := newScene(t)
	s.apply(t, request(t, "csr-1", nil))
	s.e.Emit = func(e engine.Event) {
		s.lines = append(s.lines, e.Text)
		if strings.HasPrefix(e.Text, "approving") {
			other := request(t, "csr-1", func(_ *certv1.CertificateSigningRequest,
				asked *x509.CertificateRequest) {
				asked.DNSNames = []string{"kubernetes"}
			})
			other.UID = "other"
			s.apply(t, other)
		}
	}
	err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})}, engine.Selection{})
	if said := strings.Join(s.lines, "\n"); err == nil || !strings.Contains(said, "another request has its name now") {
		t.Errorf("the error is %v\n%s", err, said)
	}
	if got := s.conditions(t, "csr-1"); got != "" {
		t.Errorf("the other request is %s", got)
	}
}

// Nor is one with the same text and another signer and usage.
func TestReplacedSpecIsNotApproved(t *testing.T) {
	s := newScene(t)
	first := request(t, "csr-1", nil)
	s.apply(t, first)
	s.e.Emit = func(e engine.Event) {
		if strings.HasPrefix(e.Text, "approving") {
			other := first.DeepCopy()
			other.UID, other.Spec.SignerName = "other", certv1.KubeAPIServerClientKubeletSignerName
			other.Spec.Usages = []certv1.KeyUsage{certv1.UsageClientAuth}
			s.apply(t, other)
		}
	}
	err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})}, engine.Selection{})
	if got := s.conditions(t, "csr-1"); err == nil || got != "" {
		t.Errorf("%v, and the other request is %q", err, got)
	}
}

// A watch approves what is requested later, and what matches its Node only later.
func TestWatchApprovesLaterRequests(t *testing.T) {
	s := newScene(t)
	s.apply(t, newNode("192.0.2.99"))
	s.apply(t, request(t, "early", nil))
	ctx, end := context.WithCancel(t.Context())
	waits := 0
	s.onAwait = func() {
		switch waits++; waits {
		case 1:
			s.apply(t, request(t, "later", func(_ *certv1.CertificateSigningRequest,
				asked *x509.CertificateRequest) {
				asked.IPAddresses = nil
			}))
		case 2:
			if got := s.conditions(t, "later"); got != "Approved" {
				t.Errorf("the later request is %q", got)
			}
			if got := s.conditions(t, "early"); got != "" {
				t.Errorf("the request of another address is %s", got)
			}
			s.apply(t, newNode("192.0.2.21"))
		default:
			end()
		}
	}
	err := engine.Run(ctx, s.e, []engine.Phase{kubeletserving.Watch(node.AllowedNames{})}, engine.Selection{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	if len(s.awaited) < 2 || s.awaited[0] != nil || s.awaited[1] != nil {
		t.Errorf("the waits for these requests ended with %v", s.awaited)
	}
	if got := s.conditions(t, "early"); got != "Approved" {
		t.Errorf("the early request is %q once its Node has its address", got)
	}
	if count := strings.Count(strings.Join(s.lines, "\n"), "is not approved"); count != 1 {
		t.Errorf("the refusal was reported %d times:\n%s", count, strings.Join(s.lines, "\n"))
	}
}

// As long as nothing changes, a refused request is compared with the cluster less and less often.
func TestWatchReadsNodesLessAndLessOften(t *testing.T) {
	s := newScene(t)
	s.apply(t, newNode("192.0.2.99"))
	s.apply(t, request(t, "early", nil))
	ctx, end := context.WithCancel(t.Context())
	from := s.Now()
	s.onAwait = func() {
		if s.Now().Sub(from) > 6*time.Hour {
			end()
		}
	}
	err := engine.Run(ctx, s.e, []engine.Phase{kubeletserving.Watch(node.AllowedNames{})}, engine.Selection{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	if read := s.listed["Node"]; read < 10 || read > 30 { // after 1, 2, 4, 8, and then every 16 minutes
		t.Errorf("all Nodes were read %d times in six hours, of %v", read, s.listed)
	}
}

// Slow lists take a small share of the time, also where each finds another request.
func TestWatchListsSeldomWhileRequestsKeepComing(t *testing.T) {
	s := newScene(t)
	s.slow = 5 * time.Second
	ctx, end := context.WithCancel(t.Context())
	from, waits := s.Now(), 0
	s.onAwait = func() {
		if s.Now().Sub(from) > time.Hour {
			end()
		}
		waits++
		s.apply(t, request(t, fmt.Sprintf("csr-%d", waits), nil))
	}
	err := engine.Run(ctx, s.e, []engine.Phase{kubeletserving.Watch(node.AllowedNames{})}, engine.Selection{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	if got := s.conditions(t, "csr-20"); got != "Approved" {
		t.Errorf("request 20 is %q", got)
	}
	if waits < 25 || waits > 61 { // at most once a minute
		t.Errorf("requests were looked at %d times in an hour", waits)
	}
}
