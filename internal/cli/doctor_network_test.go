package cli

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/doctor"
)

const (
	forwardingOfIPv6      = "/proc/sys/net/ipv6/conf/default/forwarding"
	forwardingOfIPv6Check = "FileContent--proc-sys-net-ipv6-conf-default-forwarding"
)

func hasFinding(d doctor.Diagnosis, check string) bool {
	return slices.ContainsFunc(d.Findings, func(f doctor.Finding) bool { return f.Check == check })
}

// A dual-stack cluster needs forwarding of IPv6 although its nodes are known by IPv4 addresses. The fix
// is for the interfaces that exist too.
func TestDoctorEnablesForwardingOfIPv6(t *testing.T) {
	s := newHealthyNode(t)
	const all = "/proc/sys/net/ipv6/conf/all/forwarding"
	writeFile(forwardingOfIPv6, "0\n")(t, s)
	writeFile(all, "0\n")(t, s)
	if d, _ := s.diagnose(t); hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("a cluster without IPv6 does not need it:\n%s", describeFindings(d))
	}
	edit("/etc/kubernetes/manifests/kube-apiserver.yaml", "--service-cluster-ip-range=10.96.0.0/12",
		"--service-cluster-ip-range=10.96.0.0/12,fd00:96::/112")(t, s)
	if d, _ := s.diagnose(t); !hasFinding(d, forwardingOfIPv6Check) || !strings.Contains(s.out.String(), "accept_ra=2") {
		t.Errorf("it is not found:\n%s", &s.out)
	}
	if d, _ := s.diagnose(t, "--fix", "--yes"); !hasFinding(d, forwardingOfIPv6Check) {
		t.Error("it is fixed without a question, although the node may lose its default route")
	}
	s.In = strings.NewReader("y\ny\n")
	if err := s.run(t.Context(), "doctor", "--fix"); err != nil {
		t.Errorf("%v\n%s", err, &s.out)
	}
	if d, _ := s.diagnose(t); hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("it is not fixed:\n%s", describeFindings(d))
	}
	for file, want := range map[string]string{all: "1\n", forwardingOfIPv6: "1\n",
		"/etc/sysctl.d/kubeadm-net.ipv6.conf.all.forwarding.conf": "# written by kubeadm doctor --fix\nnet.ipv6.conf.all.forwarding = 1\n"} {
		if got := string(s.world.Files[file].Data); got != want {
			t.Errorf("%s is %q", file, got)
		}
	}
}

// A worker has no static Pods: the families of its cluster are in the stored configuration.
func TestDoctorChecksForwardingOnWorker(t *testing.T) {
	s := newHealthyNode(t)
	for name := range s.world.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/manifests/") || strings.HasPrefix(name, "/etc/kubernetes/pki/") &&
			name != "/etc/kubernetes/pki/ca.crt" || strings.HasSuffix(name, "er.conf") || strings.HasSuffix(name, "admin.conf") {
			delete(s.world.Files, name)
		}
	}
	s.world.RemoteAPIServer = true
	writeFile(forwardingOfIPv6, "0\n")(t, s)
	d, _ := s.diagnose(t)
	if d.Machine.Role != "worker" || hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("%+v: a cluster without IPv6 does not need it:\n%s", d.Machine, describeFindings(d))
	}
	s.editObject(t, "ConfigMap", "kubeadm-config", func(o map[string]any) {
		data := o["data"].(map[string]any)
		data["ClusterConfiguration"] = strings.Replace(data["ClusterConfiguration"].(string),
			"serviceSubnet: 10.96.0.0/12", "serviceSubnet: 10.96.0.0/12,fd00:96::/112", 1)
	})
	if d, _ := s.diagnose(t); !hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("it is not found:\n%s\nnot checked: %v", describeFindings(d), d.NotChecked)
	}
}

// The ports of peers are those that their Pods and Nodes tell.
func TestDoctorFindsPortsOfPeers(t *testing.T) {
	s := newHealthyNode(t)
	add(`{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}},
  status: {conditions: [{type: Ready, status: "True"}], addresses: [{type: InternalIP, address: 192.0.2.77}],
    nodeInfo: {kubeletVersion: v1.37.1}, daemonEndpoints: {kubeletEndpoint: {Port: 10555}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-cp2, namespace: kube-system,
  labels: {component: kube-apiserver, tier: control-plane},
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "192.0.2.77:7443"}},
  spec: {nodeName: cp2, containers: [{name: c, image: "registry.k8s.io/kube-apiserver:v1.37.1"}]}}`)(t, s)
	d, _ := s.diagnose(t)
	for _, want := range []string{"the kubelet of node cp2 at 192.0.2.77:10555 cannot be reached",
		"the API server of node cp2 at 192.0.2.77:7443 cannot be reached"} {
		if !strings.Contains(describeFindings(d), want) {
			t.Errorf("it does not find that %s:\n%s", want, describeFindings(d))
		}
	}
	served := &x509.Certificate{}
	s.world.RemoteCertificates = map[string]*x509.Certificate{"192.0.2.77:10555": served, "192.0.2.77:7443": served}
	if d, _ := s.diagnose(t); hasFinding(d, "PeerPorts") {
		t.Errorf("it blames healthy peers:\n%s", describeFindings(d))
	}
}
