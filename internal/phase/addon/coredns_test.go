package addon_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// scene is a cluster and a run of the addon phase.
type scene struct {
	*fake.World
	node *node.Node
	e    *engine.Env

	mu    sync.Mutex      // changes are done in parallel
	lines []string        // the output
	did   []change.Change // in order
}

func (s *scene) Do(ctx context.Context, c change.Change) error {
	s.mu.Lock()
	s.did = append(s.did, c)
	s.mu.Unlock()
	return s.World.Do(ctx, c)
}

// newScene is a cluster without addons.
func newScene() *scene {
	s := &scene{World: fake.New()}
	s.RemoteAPIServer = true
	s.node = &node.Node{
		Local: node.Local{Paths: node.DefaultPaths()},
		Cluster: node.Cluster{Version: "v1.37.1", ServiceSubnet: "10.96.0.0/12",
			DNSDomain: "cluster.local"},
	}
	s.e = engine.New(engine.Env{World: s, Local: s.node.Local, Emit: func(e engine.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, fmt.Sprintf("%s: %s", e.Kind, e.Text))
	}})
	s.e.Node = func(context.Context) (*node.Node, error) { return s.node, nil }
	s.e.Admin = func(context.Context) (state.Identity, error) {
		return state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}, nil
	}
	return s
}

// running returns a cluster with CoreDNS: its version, number of replicas and Corefile.
func running(t *testing.T, version string, replicas int32, corefile string) *scene {
	t.Helper()
	s := newScene()
	tag := s.node.Cluster.DNS.ImageTag
	s.node.Cluster.DNS.ImageTag = version
	made, err := manifest.NewCoreDNS(s.node, replicas, manifest.Patches{})
	s.node.Cluster.DNS.ImageTag = tag
	if err != nil {
		t.Fatal(err)
	}
	made.Config.Data[manifest.CorefileKey] = corefile
	for _, o := range made.ManifestObjects() {
		if err := s.World.Do(t.Context(), change.ApplyObject{Object: o}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *scene) deploy(t *testing.T) {
	t.Helper()
	if err := engine.Run(t.Context(), s.e, []engine.Phase{addon.Phase},
		engine.Selection{Only: "addon/coredns"}); err != nil {
		t.Fatal(err)
	}
}

// deployment returns the replicas and image of CoreDNS, and the key of its Corefile.
func (s *scene) deployment(t *testing.T) (replicas int64, image, key string) {
	t.Helper()
	o := s.object(t, "apps/v1", "Deployment")
	replicas, _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
	image, _, _ = unstructured.NestedString(containers[0].(map[string]any), "image")
	items, _, _ := unstructured.NestedSlice(volumes[0].(map[string]any), "configMap", "items")
	key, _, _ = unstructured.NestedString(items[0].(map[string]any), "key")
	return replicas, image, key
}

func (s *scene) corefile(t *testing.T) map[string]string {
	t.Helper()
	data, _, _ := unstructured.NestedStringMap(s.object(t, "v1", "ConfigMap").Object, "data")
	return data
}

func (s *scene) object(t *testing.T, version, kind string) *unstructured.Unstructured {
	t.Helper()
	o := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}}
	u, err := s.Object(t.Context(), state.RefOf(o, state.Identity{}))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (s *scene) said(text string) bool {
	return slices.ContainsFunc(s.lines,
		func(line string) bool { return strings.Contains(line, text) })
}

const (
	newest = "registry.k8s.io/coredns/coredns:v1.14.6"
	// ofOld is a Corefile with a plugin that newer versions do not have.
	ofOld = ".:53 {\n    errors\n    proxy . 192.0.2.53\n}\n"
	// ofNow is a Corefile that every version reads.
	ofNow = ".:53 {\n    errors\n    forward . 192.0.2.53\n}\n"
)

func TestNewCluster(t *testing.T) {
	s := newScene()
	s.deploy(t)
	if replicas, image, key := s.deployment(t); replicas != 2 || image != newest ||
		key != manifest.CorefileKey {
		t.Errorf("%d replicas of %s that read %s", replicas, image, key)
	}
}

func TestReplicasAndCorefileAreKept(t *testing.T) {
	s := running(t, "v1.14.2", 5, ofNow)
	s.deploy(t)
	if replicas, image, key := s.deployment(t); replicas != 5 || image != newest ||
		key != manifest.CorefileKey {
		t.Errorf("%d replicas of %s that read %s", replicas, image, key)
	}
	if data := s.corefile(t); data[manifest.CorefileKey] != ofNow || len(data) != 1 {
		t.Errorf("the Corefile has become %q", data)
	}
}

func TestCorefileMigration(t *testing.T) {
	s := running(t, "v1.3.1", 3, ofOld)
	s.deploy(t)
	if replicas, image, key := s.deployment(t); replicas != 3 || image != newest ||
		key != manifest.CorefileKey {
		t.Errorf("%d replicas of %s that read %s", replicas, image, key)
	}
	data := s.corefile(t)
	if text := data[manifest.CorefileKey]; strings.Contains(text, "proxy") ||
		!strings.Contains(text, "forward . 192.0.2.53") ||
		data[manifest.CorefileBackupKey] != ofOld {
		t.Errorf("the Corefile has become %q", data)
	}
	var order []string
	for _, c := range s.did {
		if name := c.Target(); strings.HasSuffix(name, "/coredns") &&
			!strings.Contains(name, "ServiceAccount") && !strings.Contains(name, "Cluster") {
			order = append(order, fmt.Sprintf("%T", c)+" "+name)
		}
	}
	want := []string{ // the old Pods must not read the new Corefile
		"change.ApplyObject object:ConfigMap:kube-system/coredns",
		"change.MutateObject object:Deployment.apps:kube-system/coredns",
		"change.ApplyObject object:Deployment.apps:kube-system/coredns",
	}
	if !slices.Equal(order, want) {
		t.Errorf("done were %q, want %q", order, want)
	}
}

func TestCorefileThatCannotBeMigrated(t *testing.T) {
	s := running(t, "v0.1.0", 2, ofOld)
	s.deploy(t)
	if _, image, _ := s.deployment(t); !strings.HasSuffix(image, ":v0.1.0") {
		t.Errorf("CoreDNS has become %s", image)
	}
	if data := s.corefile(t); data[manifest.CorefileKey] != ofOld ||
		!s.said("warning: the Corefile cannot be migrated from CoreDNS 0.1.0") {
		t.Errorf("the Corefile has become %q, and the user reads\n%s", data,
			strings.Join(s.lines, "\n"))
	}
}

func TestDisabledAddons(t *testing.T) {
	s := newScene()
	s.node.Cluster.DNS.Disabled, s.node.Cluster.Proxy.Disabled = true, true
	if err := engine.Run(t.Context(), s.e, []engine.Phase{addon.Phase},
		engine.Selection{}); err != nil {
		t.Fatal(err)
	}
	if len(s.did) > 0 {
		t.Errorf("done was %v", s.did)
	}
}
