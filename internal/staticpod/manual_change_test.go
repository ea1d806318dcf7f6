package staticpod_test

import (
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func TestFindManualChange(t *testing.T) {
	replace := func(old, with string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, old, with) }
	}
	for name, c := range map[string]struct {
		component string
		written   string // version of the manifest on disk
		edit      func(text string) string
		tag       string // of etcd in the ClusterConfiguration
		changed   bool
		err       string // beginning of the error
	}{
		"as it was written": {component: release.Scheduler, written: "v1.36.3"},
		"replaced already":  {component: release.Scheduler, written: "v1.37.1"},
		"a comment": {component: release.Scheduler, written: "v1.36.3",
			edit: replace("spec:", "# mine\nspec:")},
		"an argument": {component: release.Scheduler, written: "v1.36.3",
			edit: replace("leader-elect=true", "leader-elect=false"), changed: true},
		"a third version": {component: release.Scheduler, written: "v1.36.0", changed: true},
		"no manifest":     {component: release.Scheduler},
		"a broken manifest": {component: release.Scheduler, written: "v1.36.3",
			edit: replace("spec:", "["),
			err:  "reading /etc/kubernetes/manifests/kube-scheduler.yaml: "},
		"another etcd": {component: manifest.Etcd, written: "v1.36.3",
			edit: replace("etcd:3.7.0-0", "etcd:3.6.5-0")},
		"an argument of it": {component: manifest.Etcd, written: "v1.36.3",
			edit: replace("snapshot-count=10000", "snapshot-count=5"), changed: true},
		"an etcd of its tag": {component: manifest.Etcd, written: "v1.36.3", tag: "3.7.0-0"},
		"another than its tag": {component: manifest.Etcd, written: "v1.36.3", tag: "3.7.0-0",
			edit: replace("etcd:3.7.0-0", "etcd:3.6.5-0"), changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
			present, wanted := newUpgradedNode("v1.36.3"), newUpgradedNode("v1.37.1")
			present.Cluster.Etcd.ImageTag, wanted.Cluster.Etcd.ImageTag = c.tag, c.tag
			file := wanted.Paths.Manifest(c.component)
			text := ""
			if c.written != "" {
				m, err := staticpod.Render(t.Context(), e, newUpgradedNode(c.written), c.component, nil)
				if err != nil {
					t.Fatal(err)
				}
				text = string(m.Data)
				if c.edit != nil {
					text = c.edit(text)
				}
				w.Files[file] = memory.File{Data: []byte(text), Mode: 0o600}
			}
			made, found, err := staticpod.FindManualChange(t.Context(), e, present, wanted, c.component)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("got error %v, want %s…", err, c.err)
				}
				return
			}
			isShown := string(found) == text && strings.Contains(string(made), "kind: Pod") &&
				string(made) != text
			if err != nil || c.changed && !isShown || !c.changed && (made != nil || found != nil) {
				t.Errorf("%v, made:\n%s\nfound:\n%s", err, made, found)
			}
		})
	}
}

func newUpgradedNode(version string) *node.Node {
	return &node.Node{
		Local: node.Local{Name: "cp1", Role: node.ControlPlane, Address: "192.0.2.10",
			BindPort: 6443, Paths: node.DefaultPaths()},
		Cluster: node.Cluster{Version: version, ImageRepository: "registry.k8s.io",
			ServiceSubnet: "10.96.0.0/12", Etcd: node.Etcd{DataDir: "/var/lib/etcd"}},
	}
}
