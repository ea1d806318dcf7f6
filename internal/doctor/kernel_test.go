package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	forwardingOfIPv6      = "/proc/sys/net/ipv6/conf/default/forwarding"
	forwardingOfIPv6Check = "FileContent--proc-sys-net-ipv6-conf-default-forwarding"
)

// A dual-stack cluster needs forwarding of IPv6 although its nodes are known by IPv4 addresses. The fix
// is for the interfaces that exist too.
func TestForwardingOfIPv6IsEnabled(t *testing.T) {
	s := newHealthyNode(t)
	const all = "/proc/sys/net/ipv6/conf/all/forwarding"
	writeFile(forwardingOfIPv6, "0\n")(t, s)
	writeFile(all, "0\n")(t, s)
	if d := s.diagnose(t); hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("a cluster without IPv6 does not need it:\n%s", describeFindings(d))
	}
	edit("/etc/kubernetes/manifests/kube-apiserver.yaml", "--service-cluster-ip-range=10.96.0.0/12",
		"--service-cluster-ip-range=10.96.0.0/12,fd00:96::/112")(t, s)
	d := s.diagnose(t)
	if !hasFinding(d, forwardingOfIPv6Check) || !strings.Contains(fmt.Sprint(d), "accept_ra=2") {
		t.Errorf("it is not found: %+v", d)
	}
	if !slices.ContainsFunc(d.Fixes(), func(f Fix) bool {
		return f.Check == forwardingOfIPv6Check && strings.Contains(f.Risk, "default route")
	}) {
		t.Error("nothing says that the node may lose its default route")
	}
	if d := s.fix(t, d); hasFinding(d, forwardingOfIPv6Check) {
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
func TestForwardingIsCheckedOnWorker(t *testing.T) {
	s := newHealthyNode(t)
	for name := range s.world.Files {
		if strings.HasPrefix(name, "/etc/kubernetes/manifests/") || strings.HasPrefix(name, "/etc/kubernetes/pki/") &&
			name != "/etc/kubernetes/pki/ca.crt" || strings.HasSuffix(name, "er.conf") || strings.HasSuffix(name, "admin.conf") {
			delete(s.world.Files, name)
		}
	}
	s.world.RemoteAPIServer = true
	writeFile(forwardingOfIPv6, "0\n")(t, s)
	d := s.diagnose(t)
	if d.Machine.Role != "worker" || hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("%+v: a cluster without IPv6 does not need it:\n%s", d.Machine, describeFindings(d))
	}
	s.editObject(t, "ConfigMap", "kubeadm-config", func(o map[string]any) {
		data := o["data"].(map[string]any)
		data["ClusterConfiguration"] = strings.Replace(data["ClusterConfiguration"].(string),
			"serviceSubnet: 10.96.0.0/12", "serviceSubnet: 10.96.0.0/12,fd00:96::/112", 1)
	})
	if d := s.diagnose(t); !hasFinding(d, forwardingOfIPv6Check) {
		t.Errorf("it is not found:\n%s\nnot checked: %v", describeFindings(d), d.NotChecked)
	}
}
