package nodeaddress

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestReplace(t *testing.T) {
	four := Move{To: "192.0.2.20", From: []string{"192.0.2.10", "192.0.2.11"}}
	six := Move{To: "2001:db8::20", From: []string{"2001:db8::10"}}
	for _, c := range []struct {
		move       Move
		text, want string
	}{
		{four, "192.0.2.10", "192.0.2.20"},
		{four, "192.0.2.10:6443", "192.0.2.20:6443"},
		{four, "https://192.0.2.10:2379", "https://192.0.2.20:2379"},
		{four, "https://192.0.2.11", "https://192.0.2.20"},
		{four, "https://192.0.2.10:6443/path", "https://192.0.2.20:6443/path"},
		{four, "https://127.0.0.1:2379,https://192.0.2.10:2379", "https://127.0.0.1:2379,https://192.0.2.20:2379"},
		{four, "cp1=https://192.0.2.10:2380,cp2=https://192.0.2.12:2380",
			"cp1=https://192.0.2.20:2380,cp2=https://192.0.2.12:2380"},
		{four, "192.0.2.100", "192.0.2.100"},
		{four, "192.0.2.10/32", "192.0.2.10/32"},
		{four, "/var/lib/192.0.2.10", "/var/lib/192.0.2.10"},
		{four, "cluster.example:6443", "cluster.example:6443"},
		{four, "", ""},
		{four, "::ffff:192.0.2.10", "192.0.2.20"},
		{six, "2001:db8::10", "2001:db8::20"},
		{six, "[2001:db8:0::10]:6443", "[2001:db8::20]:6443"},
		{six, "https://[2001:db8::10]:2380", "https://[2001:db8::20]:2380"},
		{six, "https://[2001:db8::10]", "https://[2001:db8::20]"},
		{six, "https://[2001:db8::100]:2380", "https://[2001:db8::100]:2380"},
		{Move{To: "192.0.2.20"}, "192.0.2.10", "192.0.2.10"},
	} {
		if got := c.move.Replace(c.text); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
		}
	}
}

const movedPod = `# a comment
apiVersion: v1
kind: Pod
metadata:
  annotations: {kubeadm.kubernetes.io/etcd.advertise-client-urls: "https://192.0.2.10:2379", note: at 192.0.2.10}
spec:
  unknownField: {kept: 1}
  containers:
  - command: [etcd, "--listen-peer-urls=https://192.0.2.10:2380", "--service-account-issuer=https://192.0.2.10:6443", --bind, 192.0.2.10, --count=10000]
    env: [{name: NO_PROXY, value: 192.0.2.10}]
    livenessProbe: {httpGet: {host: 192.0.2.10, port: probe-port}}
    startupProbe: {httpGet: {host: 127.0.0.1, port: 2381}}
`

func TestManifest(t *testing.T) {
	m := Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}
	got, err := m.Manifest([]byte(movedPod))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"etcd.advertise-client-urls: https://192.0.2.20:2379", "note: at 192.0.2.10",
		"--listen-peer-urls=https://192.0.2.20:2380", "- 192.0.2.20\n", "host: 192.0.2.20", "host: 127.0.0.1",
		"value: 192.0.2.10", "kept: 1", "issuer=https://192.0.2.10:6443", "--count=10000"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	again, err := m.Manifest(got)
	if err != nil || string(again) != string(got) {
		t.Errorf("a second time it becomes\n%s\n%v", again, err)
	}
	same, err := Move{To: "192.0.2.20", From: []string{"192.0.2.30"}}.Manifest([]byte(movedPod))
	if err != nil || string(same) != movedPod {
		t.Errorf("without a previous address it becomes\n%s\n%v", same, err)
	}
	for _, broken := range []string{"[", "- 1", "metadata: 1", "spec: {containers: {}}", "spec: {containers: [1, {command: [1]}]}"} {
		if got, err := m.Manifest([]byte(broken)); err == nil && string(got) != broken {
			t.Errorf("%q becomes %q", broken, got)
		}
	}
}

func TestKubeletEnv(t *testing.T) {
	m := Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}
	for text, want := range map[string]string{
		`KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.10 --v=2"`:   `KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.20 --v=2"`,
		`KUBELET_EXTRA_ARGS=--node-ip=192.0.2.10,2001:db8::1`: `KUBELET_EXTRA_ARGS=--node-ip=192.0.2.20,2001:db8::1`,
		`KUBELET_EXTRA_ARGS=--node-ip="192.0.2.10" --v=2`:     `KUBELET_EXTRA_ARGS=--node-ip="192.0.2.20" --v=2`,
		`KUBELET_EXTRA_ARGS='--node-ip 192.0.2.10'`:           `KUBELET_EXTRA_ARGS='--node-ip 192.0.2.20'`,
		`KUBELET_EXTRA_ARGS=--node-ip=192.0.2.100 --v=2`:      `KUBELET_EXTRA_ARGS=--node-ip=192.0.2.100 --v=2`,
		`KUBELET_EXTRA_ARGS=--provider-id=192.0.2.10`:         `KUBELET_EXTRA_ARGS=--provider-id=192.0.2.10`,
		"KUBELET_EXTRA_ARGS=\"--node-ip \\\n192.0.2.10\"":     "KUBELET_EXTRA_ARGS=\"--node-ip \\\n192.0.2.20\"",
		`KUBELET_EXTRA_ARGS=--node-ip=eth0`:                   `KUBELET_EXTRA_ARGS=--node-ip=eth0`,
		``:                                                    ``,
	} {
		if got := m.KubeletEnv(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestFindNodeIPs(t *testing.T) {
	for text, want := range map[string]struct{ ips, unread string }{
		`A="--node-ip=192.0.2.1 --node-ip=192.0.2.2,2001:db8::1"`: {"192.0.2.2 2001:db8::1", ""},
		`A=--node-ip "192.0.2.1"`:                                 {"192.0.2.1", ""},
		`A="--node-ip=eth0"`:                                      {"", "--node-ip=eth0"},
		`A="--node-ip=192.0.2.1,eth0 --v=2"`:                      {"", "--node-ip=192.0.2.1,eth0"},
		`A=--node-ip=${IP}`:                                       {"", "--node-ip=${IP}"},
		`A="--node-ip=eth0 --node-ip=192.0.2.1"`:                  {"192.0.2.1", ""},
		`A="--node-ip= --v=2"`:                                    {"", ""},
		`A="--node-ip=192.0.2.1 --node-ip="`:                      {"", ""},
		`A="--node-ip=192.0.2.1 --node-ip= --v=2"`:                {"", ""},
		`A=--node-ip=192.0.2.1 --node-ip=""`:                      {"", ""},
		`A="--node-ip= --node-ip=192.0.2.1"`:                      {"192.0.2.1", ""},
		`A="--node-ip --v=2"`:                                     {"", "--node-ip=--v=2"},
		`A=--v=2`:                                                 {"", ""},
	} {
		if ips, unread := findNodeIPs(text); strings.Join(ips, " ") != want.ips || unread != want.unread {
			t.Errorf("%s: the kubelet is told %v, not read is %s", text, ips, unread)
		}
	}
}

func TestMentions(t *testing.T) {
	four := Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}
	six := Move{To: "2001:db8::20", From: []string{"2001:db8::10"}}
	for text, want := range map[string]bool{
		"extraArgs: [{name: listen-metrics-urls, value: 'http://192.0.2.10:2381'}]": true, "certSANs: [192.0.2.10]": true,
		"value: 192.0.2.100": false, "value: 1192.0.2.10": false, "": false, "- 192.0.2.10\n": true,
	} {
		if _, got := four.Mentions(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if _, found := six.Mentions("value: https://[2001:db8::10]:2381"); !found {
		t.Error("the IPv6 address in a URL is not found")
	}
}

// A manifest from elsewhere never makes the editing panic, and what it returns is YAML.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(movedPod))
	m := Move{To: "192.0.2.20", From: []string{"192.0.2.10"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := m.Manifest(data)
		var any map[string]any
		if err == nil && yaml.Unmarshal(got, &any) != nil {
			t.Errorf("%q becomes %q", data, got)
		}
	})
}
