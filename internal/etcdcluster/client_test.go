package etcdcluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func TestReadClient(t *testing.T) {
	pod := func(name string, args ...string) string {
		return fmt.Sprintf("metadata: {name: %s}\nspec: {containers: [{name: %[1]s, command: [%[1]s, %s]}]}",
			name, strings.Join(args, ", "))
	}
	server := pod("kube-apiserver", `"--etcd-servers=https://127.0.0.1:2379"`, "--etcd-cafile=/ca.crt",
		"--etcd-certfile=/client.crt", "--etcd-keyfile=/client.key")
	for name, c := range map[string]struct {
		server, etcd string
		endpoints    string
		external     bool
		err          string
	}{
		"external": {server: pod("kube-apiserver", `"--etcd-servers=https://a:2379,https://b:2379"`),
			endpoints: "https://a:2379,https://b:2379", external: true},
		"local": {server: server, endpoints: "https://127.0.0.1:2379,https://192.0.2.10:2379",
			etcd: pod("etcd", "--advertise-client-urls=https://192.0.2.10:2379",
				"--initial-cluster=cp1=https://192.0.2.10:2380")},
		"joined": {server: server,
			endpoints: "https://127.0.0.1:2379,https://[2001:db8::1]:2379,https://[2001:db8::2]:2379",
			etcd: pod("etcd", `"--advertise-client-urls=https://[2001:db8::2]:2379"`,
				`"--initial-cluster=cp1=https://[2001:db8::1]:2380,cp2=https://[2001:db8::2]:2380"`)},
		"no server":       {err: "does not exist"},
		"no endpoints":    {server: pod("kube-apiserver"), err: "does not set --etcd-servers"},
		"broken manifest": {server: "[", err: "reading /etc/kubernetes/manifests/kube-apiserver.yaml"},
	} {
		w := fake.New()
		for file, text := range map[string]string{"kube-apiserver": c.server, "etcd": c.etcd} {
			if text != "" {
				w.Files["/etc/kubernetes/manifests/"+file+".yaml"] = memory.File{Data: []byte(text)}
			}
		}
		got, err := ReadClient(t.Context(), w, node.DefaultPaths())
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got error %v, want %s", name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Endpoints, strings.Split(c.endpoints, ",")) ||
			got.External != c.external {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// The API server may see a file at another path than this machine.
func TestReadClientPaths(t *testing.T) {
	w := fake.New()
	w.Files["/etc/kubernetes/manifests/kube-apiserver.yaml"] = memory.File{Data: []byte(`metadata: {name: kube-apiserver}
spec:
  containers:
  - name: kube-apiserver
    command: [kube-apiserver, "--etcd-servers=https://a:2379", --etcd-cafile=/etcd/ca.crt, --encryption-provider-config=/enc/enc.yaml]
    volumeMounts: [{name: enc, mountPath: /enc}]
  volumes: [{name: enc, hostPath: {path: /secure}}]
`)}
	got, err := ReadClient(t.Context(), w, node.DefaultPaths())
	if err != nil || got.EncryptionConfig != "/secure/enc.yaml" || got.CAFile != "/etcd/ca.crt" {
		t.Errorf("got %+v, %v", got, err)
	}
}
