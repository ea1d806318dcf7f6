package kubeletserving_test

import (
	"crypto/x509"
	"net"
	"strings"
	"testing"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/kubeletserving"
	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
)

// A node's credential writes the status of its Node, so whatever a malicious node asks for is there too. A bootstrap
// token's user chooses the name of a Node.
func TestMaliciousNodeIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ node, asks, want string }{
		"API server as a Service":       {"worker1", "kubernetes.default.svc", "a name of a Service"},
		"API server by its short name":  {"worker1", "kubernetes", "a name of a Service"},
		"Service in another namespace":  {"worker1", "web.shop.svc", "a name of a Service"},
		"Service by its full name":      {"worker1", "web.shop.svc.cluster.local", "a name in the domain of the Services"},
		"domain of the cluster":         {"worker1", "cluster.local", "a name in the domain of the Services"},
		"wildcard":                      {"worker1", "*.example.com", "a wildcard"},
		"wildcard of everything":        {"worker1", "*", "a wildcard"},
		"control plane Node":            {"worker1", "cp1", "in apiServer.certSANs"},
		"other control plane Node":      {"worker1", "cp2", "the name of Node cp2"},
		"other worker":                  {"worker1", "worker2", "the name of Node worker2"},
		"endpoint":                      {"worker1", "api.example.com", "the controlPlaneEndpoint"},
		"SAN of the API server":         {"worker1", "alias.example.com", "in apiServer.certSANs"},
		"any other name":                {"worker1", "vault.corp.example", "which is not the name of the Node, worker1"},
		"upper case":                    {"worker1", "KUBERNETES.default.svc", "which is not a DNS name in lower case"},
		"final dot":                     {"worker1", "kubernetes.default.svc.", "which is not a DNS name in lower case"},
		"localhost":                     {"worker1", "localhost", "the name that every machine has for itself"},
		"API server's cluster IP":       {"worker1", "10.96.0.1", "an address of the Services"},
		"IPv6 cluster IP":               {"worker1", "fd00:96::1", "an address of the Services"},
		"cluster IP of a further range": {"worker1", "192.0.2.193", "an address of the Services"},
		"Pod":                           {"worker1", "10.244.1.5", "an address of the Pods"},
		"API server on this machine":    {"worker1", "192.0.2.10", "an address of Node cp1"},
		"API server elsewhere":          {"worker1", "198.51.100.11", "an address of Node cp2"},
		"address of another worker":     {"worker1", "192.0.2.22", "an address of Node worker2"},
		"IPv4 address in IPv6 form":     {"worker1", "::ffff:192.0.2.22", "an address of Node worker2"},
		"address among the SANs":        {"worker1", "192.0.2.99", "in apiServer.certSANs"},
		"external etcd":                 {"worker1", "192.0.2.51", "an etcd member"},
		"etcd of a control plane":       {"worker1", "192.0.2.12", "an address of an etcd member on Node cp1"},
		"loopback":                      {"worker1", "127.0.0.1", "not the address of a single machine"},
		"metadata service":              {"worker1", "169.254.169.254", "not the address of a single machine"},
		"multicast":                     {"worker1", "ff02::1", "not the address of a single machine"},
		"any other address":             {"worker1", "203.0.113.9", "which is in none of 192.0.2.0/24, 2001:db8::/64 ("},
		"Node named as the API server":  {"kubernetes.default.svc", "kubernetes.default.svc", "a name of a Service"},
		"Node named as the endpoint":    {"api.example.com", "api.example.com", "the controlPlaneEndpoint"},
		"Node named as a Service":       {"metrics.monitoring", "metrics.monitoring", "a name of Service monitoring/metrics"},
		"Node named as a short Service": {"shop", "shop", "a name of Service default/shop"},
		"Node named in the domain":      {"evil.cluster.local", "evil.cluster.local", "a name in the domain of the Services"},
		"Node named as a control plane": {"cp2.example.com", "cp2.example.com", "the name of Node cp2"},
		"Node that a wildcard matches": {"api.wild.example.com", "api.wild.example.com",
			"which is matched by *.wild.example.com, in apiServer.certSANs; if only nodes have names in that domain, set --allowed-dns-suffix"},
		"worker that is an API server": {"cp9", "192.0.2.99", "is not labeled as a control plane node with node-role.kubernetes.io/control-plane"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.claim(t, c.node, c.asks)
			s.apply(t, s.claimed(t, "forged", c.node, c.asks))
			err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})},
				engine.Selection{})
			if err == nil {
				t.Error("the command succeeds")
			}
			if got := s.conditions(t, "forged"); got != "" {
				t.Errorf("the forged request is %s", got)
			}
			if said := strings.Join(s.lines, "\n"); !strings.Contains(said, c.want) {
				t.Errorf("it does not say %q:\n%s", c.want, said)
			}
		})
	}
}

// claim makes the status of a Node have a name or an address.
func (s *scene) claim(t *testing.T, name, claimed string) {
	t.Helper()
	n := newNode("192.0.2.21")
	n.Name = name
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: claimed},
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: claimed})
	s.apply(t, n)
}

// claimed is the request of a Node's kubelet for one name or address.
func (s *scene) claimed(t *testing.T, csr, name, claimed string) *certv1.CertificateSigningRequest {
	t.Helper()
	return request(t, csr, func(r *certv1.CertificateSigningRequest, asked *x509.CertificateRequest) {
		r.Spec.Username, asked.Subject.CommonName = "system:node:"+name, "system:node:"+name
		asked.DNSNames, asked.IPAddresses = []string{claimed}, nil
		if ip := net.ParseIP(claimed); ip != nil {
			asked.DNSNames, asked.IPAddresses = nil, []net.IP{ip}
		}
	})
}

// Control plane nodes have names and addresses of the API server, and operators say which others nodes have.
func TestHonestNodesAreApproved(t *testing.T) {
	aws, err := config.AllowedNames([]string{"192.0.2.0/24", "203.0.113.0/28"}, []string{".nodes.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		allowed    node.AllowedNames
		node, asks string
	}{
		"control plane whose name is a SAN":     {node.AllowedNames{}, "cp1", "cp1"},
		"control plane whose address is a SAN":  {node.AllowedNames{}, "cp1", "192.0.2.10"},
		"control plane in another network":      {node.AllowedNames{}, "cp2", "198.51.100.11"},
		"worker":                                {node.AllowedNames{}, "worker2", "192.0.2.22"},
		"worker whose name another claims":      {node.AllowedNames{}, "worker2", "worker2"},
		"allowed domain":                        {aws, "worker1", "ec2-1.nodes.example.com"},
		"allowed network":                       {aws, "worker1", "203.0.113.9"},
		"control plane that a wildcard matches": {node.AllowedNames{}, "cp3.wild.example.com", "cp3.wild.example.com"},
		"allowed domain that a wildcard matches": {node.AllowedNames{DNSSuffixes: []string{"wild.example.com"}},
			"n1.wild.example.com", "n1.wild.example.com"},
		"control plane outside allowed network": {aws, "cp2", "198.51.100.11"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if c.node == "worker1" {
				s.claim(t, c.node, c.asks)
			} else if c.asks != "192.0.2.22" {
				s.claim(t, "worker1", c.asks) // which keeps no node from its name, and no control plane node from its address
			}
			s.apply(t, s.claimed(t, "honest", c.node, c.asks))
			if err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(c.allowed)},
				engine.Selection{}); err != nil {
				t.Errorf("%v\n%s", err, strings.Join(s.lines, "\n"))
			}
			if got := s.conditions(t, "honest"); got != "Approved" {
				t.Errorf("the request is %q", got)
			}
			if said, want := strings.Join(s.lines, "\n"), "approving honest of system:node:"+c.node+" for "+c.asks; !strings.Contains(said, want) {
				t.Errorf("it does not say %q:\n%s", want, said)
			}
		})
	}
	// What is allowed does not extend to what others have.
	for _, asks := range []string{"192.0.2.22", "10.96.0.1", "b.nodes.example.com"} {
		s := newScene(t)
		if err := s.AddObjects(`{apiVersion: v1, kind: Node, metadata: {name: b},
  status: {addresses: [{type: ExternalDNS, address: b.nodes.example.com}]}}`); err != nil {
			t.Fatal(err)
		}
		s.claim(t, "worker1", asks)
		s.apply(t, s.claimed(t, "forged", "worker1", asks))
		if err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(aws)}, engine.Selection{}); err == nil {
			t.Errorf("%s of another owner is approved", asks)
		}
	}
}

// A kubelet may label its Node where the admission plugin NodeRestriction is off.
func TestLabelCountsOnlyWithNodeRestriction(t *testing.T) {
	for _, args := range []string{"{name: enable-admission-plugins, value: 'NamespaceLifecycle'}",
		"{name: disable-admission-plugins, value: 'NodeRestriction'}"} {
		s := newScene(t)
		if err := s.AddObjects(strings.Replace(clusterObjects, "apiServer: {", "apiServer: {extraArgs: ["+args+"], ",
			1)); err != nil {
			t.Fatal(err)
		}
		s.apply(t, s.claimed(t, "csr-1", "cp1", "192.0.2.10"))
		err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})},
			engine.Selection{})
		if said := strings.Join(s.lines, "\n"); err == nil || !strings.Contains(said, "is not labeled as a control plane node") {
			t.Errorf("%s: %v\n%s", args, err, said)
		}
	}
}

// What cannot be read is not "nothing to refuse".
func TestNothingIsApprovedOnAGuess(t *testing.T) {
	for kind, failing := range map[string]func(*scene){
		"ConfigMap": func(s *scene) {
			delete(s.Objects, memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "kubeadm-config"})
		},
		"EndpointSlice": nil, "ServiceCIDR": nil, "Pod": nil, "Node": nil, "Service": nil,
	} {
		s := newScene(t)
		s.apply(t, request(t, "csr-1", nil))
		s.failing = kind
		if failing != nil {
			failing(s)
		}
		err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})},
			engine.Selection{})
		if err == nil {
			t.Errorf("the command succeeds without %s", kind)
		}
		if got := s.conditions(t, "csr-1"); got != "" {
			t.Errorf("without %s the request is %s", kind, got)
		}
	}
	// Away from the control plane, nothing shows which addresses nodes have.
	s := newScene(t)
	s.Interfaces = []state.Address{{IP: "192.0.2.200", Bits: 24, Interface: "eth0", DefaultRoute: true}}
	s.apply(t, request(t, "csr-1", nil))
	err := engine.Run(t.Context(), s.e, []engine.Phase{kubeletserving.Approve(node.AllowedNames{})}, engine.Selection{})
	if said := strings.Join(s.lines, "\n"); err == nil || !strings.Contains(said, "set --allowed-cidr to the networks of the nodes") {
		t.Errorf("%v\n%s", err, said)
	}
}
