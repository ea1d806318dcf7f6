package staticpod_test

import (
	"bytes"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// A member keeps the --initial-cluster with which it has joined or created its cluster, so that an
// upgrade changes its manifest only where the version does.
func TestRenderPresent(t *testing.T) {
	n := newReplacement().Node
	n.Cluster = node.Cluster{Version: release.DefaultTool, ImageRepository: "registry.k8s.io",
		ServiceSubnet: "10.96.0.0/12", Etcd: node.Etcd{DataDir: "/var/lib/etcd"}}
	file := n.Paths.Manifest(etcdComponent)
	for name, members := range map[string][]state.Member{
		"the first member": nil,
		"a joined member": {
			{ID: 2, Name: "cp2", PeerURLs: []string{"https://192.0.2.11:2380"}},
			{ID: 10, PeerURLs: []string{"https://192.0.2.10:2380"}, Learner: true}},
		"beside members without a name or with two URLs": {
			{ID: 2, Name: "cp2", PeerURLs: []string{"https://192.0.2.11:2380",
				"https://[2001:db8::11]:2380"}},
			{ID: 11, PeerURLs: []string{"https://192.0.2.12:2380"}, Learner: true},
			{ID: 10, PeerURLs: []string{"https://192.0.2.10:2380"}, Learner: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
			written, err := staticpod.Render(t.Context(), e, n, etcdComponent, members)
			if err != nil {
				t.Fatal(err)
			}
			// The arguments may be part of the command too.
			// A patch may put a sidecar first.
			for _, text := range [][]byte{written.Data,
				bytes.ReplaceAll(written.Data, []byte("command:"), []byte("args:")),
				bytes.Replace(written.Data, []byte("containers:\n"),
					[]byte("containers:\n  - name: sidecar\n    image: x\n"), 1)} {
				w.Files[file] = memory.File{Data: text, Mode: 0o600}
				got, err := staticpod.RenderPresent(t.Context(), e, n, etcdComponent)
				if err != nil || got.Component != etcdComponent ||
					!bytes.Equal(got.Data, written.Data) {
					t.Errorf("%v, got:\n%s\nwant:\n%s", err, got.Data, written.Data)
				}
			}
		})
	}
	for name, text := range map[string]string{"a broken manifest": "{", "no containers": "kind: Pod",
		"no manifest": ""} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			if text != "" {
				w.Files[file] = memory.File{Data: []byte(text), Mode: 0o600}
			}
			e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
			got, err := staticpod.RenderPresent(t.Context(), e, n, etcdComponent)
			if err != nil || strings.Contains(string(got.Data), "initial-cluster-state") {
				t.Errorf("%v:\n%s", err, got.Data)
			}
		})
	}
}
