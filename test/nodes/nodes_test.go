package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestInvalidNamesAreRefused(t *testing.T) {
	for _, name := range []string{"", "a/b", "..", "Dev", "-a", "a b", strings.Repeat("a", 32)} {
		if clusterName.MatchString(name) {
			t.Errorf("cluster name %q was accepted", name)
		}
	}
	for _, name := range []string{"", "a.b", "-a", "a-", "a/b", strings.Repeat("a", 64)} {
		if nodeName.MatchString(name) {
			t.Errorf("node name %q was accepted", name)
		}
	}
	for _, name := range []string{"cp1", "Worker-B", "0", strings.Repeat("a", 63)} {
		if !nodeName.MatchString(name) {
			t.Errorf("node name %q was refused", name)
		}
	}
}

func TestNodeAddressesAreUnique(t *testing.T) {
	c := &Cluster{name: "x", dir: t.TempDir()}
	for _, want := range []string{"10.77.0.11", "10.77.0.12"} {
		n, err := c.register("n" + want[len(want)-1:])
		if err != nil {
			t.Fatal(err)
		}
		if n.Address() != want {
			t.Errorf("address %s, want %s", n.Address(), want)
		}
	}
	if _, err := c.register("N1"); err == nil {
		t.Error("two nodes may have names that differ in case only")
	}
	if _, err := c.registerAt("n3", "10.77.0.12"); err == nil {
		t.Error("two nodes have one address")
	}
	for _, address := range []string{"10.77.0.2", "10.77.0.131", "192.0.2.7", ""} {
		if _, err := c.registerAt("n3", address); err == nil {
			t.Errorf("a node got the address %q", address)
		}
	}
	if _, err := c.registerAt("n3", "10.77.0.130"); err != nil {
		t.Error(err)
	}
	if _, err := c.register("full"); err == nil {
		t.Error("a node got an address beyond the network's end")
	}
}

func TestJoinCommands(t *testing.T) {
	const printed = `More control-plane nodes:

  kubeadm join 10.77.0.11:6443 --token a.b \
	--discovery-token-ca-cert-hash sha256:c \
	--control-plane --certificate-key d

And workers:

kubeadm join 10.77.0.11:6443 --token a.b \
	--discovery-token-ca-cert-hash sha256:c 
`
	worker, controlPlane, err := JoinCommands(printed)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"kubeadm", "join", "10.77.0.11:6443", "--token", "a.b",
		"--discovery-token-ca-cert-hash", "sha256:c"}
	if !slices.Equal(worker, want) {
		t.Errorf("worker: %q", worker)
	}
	if want = append(want, "--control-plane", "--certificate-key", "d"); !slices.Equal(controlPlane,
		want) {
		t.Errorf("control plane: %q", controlPlane)
	}
	if _, _, err := JoinCommands("error: no root\n"); err == nil {
		t.Error("a join command was found where there is none")
	}
}

func TestInitConfigIsValidYAML(t *testing.T) {
	text := InitConfig(Config{
		Address: "10.77.0.11", Endpoint: "api:6443", Version: "v1.36.3",
		Init:         "skipPhases: [addon]",
		Registration: "  name: first", Cluster: "clusterName: c", Kubelet: "maxPods: 5",
	})
	documents := make(map[string]map[string]any)
	for _, part := range strings.Split(text, "---\n") {
		var d map[string]any
		if err := yaml.UnmarshalStrict([]byte(part), &d); err != nil {
			t.Fatalf("%v in:\n%s", err, part)
		}
		documents[d["kind"].(string)] = d
	}
	registration := documents["InitConfiguration"]["nodeRegistration"].(map[string]any)
	if registration["name"] != "first" || len(registration["ignorePreflightErrors"].([]any)) != 5 {
		t.Errorf("node registration: %v", registration)
	}
	for kind, field := range map[string]string{
		"InitConfiguration": "skipPhases", "ClusterConfiguration": "controlPlaneEndpoint",
		"KubeletConfiguration": "maxPods", "KubeProxyConfiguration": "conntrack",
	} {
		if documents[kind][field] == nil {
			t.Errorf("%s lacks %s", kind, field)
		}
	}
	if documents["ClusterConfiguration"]["clusterName"] != "c" {
		t.Error("ClusterConfiguration lacks the further field")
	}
}

func TestFingerprintDiff(t *testing.T) {
	a := Fingerprint{"files": {"/etc/a", "/etc/b"}, "ports": {"tcp *:22"}}
	b := Fingerprint{"files": {"/etc/b", "/etc/c"}, "links": {"cni0"}}
	want := []string{"- files: /etc/a", "+ files: /etc/c", "+ links: cni0", "- ports: tcp *:22"}
	if got := a.Diff(b); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFlattenListing(t *testing.T) {
	got := flattenListing(
		"# Warning: table ip nat is managed\ntable ip nat {\n\tchain A {\n\t\tcounter packets 1 bytes 2 jump B\n\t}\n\tchain B {\n\t}\n}\n:INPUT ACCEPT [1:2]\n")
	want := []string{"table ip nat", "table ip nat, chain A", "table ip nat, chain A, jump B",
		"table ip nat, chain B", ":INPUT ACCEPT"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMountsOf(t *testing.T) {
	mounts, err := mountsOf("self")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(mounts,
		func(m mountPoint) bool { return m.path == "/proc" && m.kind == "proc" }) {
		t.Errorf("no /proc among %v", mounts)
	}
	if got := unescapePath(`/a\040b\134c`); got != `/a b\c` {
		t.Errorf("unescaped to %q", got)
	}
}

func TestNodeAddressesOfEachFamily(t *testing.T) {
	for families, want := range map[Families][]string{
		IPv4Only: {"10.77.0.11"}, IPv6Only: {"fd00:77::11"},
		DualStack: {"10.77.0.11", "fd00:77::11"},
	} {
		c := &Cluster{name: "x", dir: t.TempDir(), record: record{Families: families}}
		n, err := c.register("n1")
		if err != nil || !slices.Equal(n.Addresses(), want) || n.linkName() != "port-11" ||
			n.macAddress() != "02:00:0a:4d:00:0b" {
			t.Errorf("%q: addresses %q, want %q, port %s, card %s: %v", families, n.Addresses(),
				want, n.linkName(), n.macAddress(), err)
		}
		if got := familiesOf(n.Addresses()); got != families {
			t.Errorf("%q are of the families %q, want %q", n.Addresses(), got, families)
		}
	}
}

func TestPodRoutesOfEachFamily(t *testing.T) {
	c := &Cluster{record: record{Nodes: []nodeRecord{
		{Addresses: []string{"10.77.0.11", "fd00:77::11"},
			PodCIDRs: []string{"10.244.0.0/24", "fd00:244::/64"}},
		{Addresses: []string{"10.77.0.12", "fd00:77::12"},
			PodCIDRs: []string{"10.244.1.0/24", "fd00:244:0:1::/64"}},
	}}}
	want := []string{"route replace 10.244.1.0/24 via 10.77.0.12",
		"route replace fd00:244:0:1::/64 via fd00:77::12"}
	if got := c.routes("10.77.0.11"); !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func TestInitConfigOfEachFamily(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   []string
		lacks  string
	}{
		{Config{Address: "10.77.0.11"}, []string{"podSubnet: 10.244.0.0/16\n"}, "serviceSubnet"},
		{Config{Address: "fd00:77::11"},
			[]string{"podSubnet: fd00:244::/48\n", "serviceSubnet: fd00:96::/112\n"}, "node-ip"},
		{Config{Address: "10.77.0.11", NodeIPs: []string{"10.77.0.11", "fd00:77::11"}}, []string{
			"podSubnet: 10.244.0.0/16,fd00:244::/48\n",
			"serviceSubnet: 10.96.0.0/12,fd00:96::/112\n",
			`{name: node-ip, value: "10.77.0.11,fd00:77::11"}`}, "\n\n"},
	} {
		text := InitConfig(c.config)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in:\n%s", want, text)
			}
		}
		if strings.Contains(text, c.lacks) {
			t.Errorf("%q is in:\n%s", c.lacks, text)
		}
	}
}

func TestOrderBackends(t *testing.T) {
	b := &Balancer{backends: []string{"a", "b", "c"}, lastFailure: map[string]time.Time{}}
	for _, want := range []string{"bca", "cab", "abc", "bca"} {
		if got := strings.Join(b.orderBackends(), ""); got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	}
	b.lastFailure["a"], b.lastFailure["b"] = time.Now(), time.Now().Add(-time.Hour)
	if got := strings.Join(b.orderBackends(), ""); got != "cba" {
		t.Errorf("order %s: a backend that was sick just now comes before another one", got)
	}
}
