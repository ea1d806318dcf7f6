package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// testWorld is a control plane of a cluster with two of them and a worker, all of v1.36.3.
func testWorld(t *testing.T, objects ...string) *fake.World {
	t.Helper()
	w := fake.New()
	err := w.AddCluster(fake.ExistingCluster{
		Version: "v1.36.3", Kubelet: "v1.36.3", EtcdTag: "3.6.8-0", CoreDNSTag: "v1.14.2",
		ControlPlanes: []string{"cp1", "cp2"}, Workers: []string{"worker"},
	})
	for _, o := range objects {
		if err == nil {
			err = w.AddObjects(o)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// testCluster is what is read of testWorld.
func testCluster(t *testing.T, objects ...string) *Cluster {
	t.Helper()
	c, _, err := ReadCluster(t.Context(), testWorld(t, objects...), state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func apiServer(node, image string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-" + node +
		", namespace: kube-system, " +
		"labels: {component: kube-apiserver, tier: control-plane}}, " +
		"spec: {nodeName: " + node + ", containers: [{image: \"" + image + "\"}]}}"
}

func kubeletNode(name, version string) string {
	labels := ""
	if strings.HasPrefix(name, "cp") {
		labels = node.ControlPlaneLabel + `: ""`
	}
	return "{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {" + labels + "}}, " +
		"status: {nodeInfo: {kubeletVersion: " + version + "}}}"
}

func deleted(kind, name string) string {
	return "{apiVersion: v1, kind: " + kind + ", metadata: {name: " + name +
		", namespace: kube-system}, deleted: true}"
}

// stored is a ConfigMap kubeadm-config whose ClusterConfiguration says more.
func stored(more string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubeadm-config, namespace: kube-system}\n" +
		"data:\n  ClusterConfiguration: |\n    apiVersion: kubeadm.k8s.io/v1beta4\n" +
		"    kind: ClusterConfiguration\n    kubernetesVersion: v1.36.3\n    " + more + "\n"
}

func TestReadCluster(t *testing.T) {
	w := testWorld(t,
		apiServer("cp2", "mirror.example:5000/k8s/kube-apiserver:v1.37.0-rc.1_abc@sha256:00"),
		kubeletNode("worker", "v1.35.1"),
		stored("featureGates: {NodeLocalCRISocket: true}"))
	c, warnings, err := ReadCluster(t.Context(), w, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Version.String(); got != "1.37.0-rc.1+abc" {
		t.Errorf("the cluster has version %s", got)
	}
	want := []Instance{{"cp1", "v1.36.3"}, {"cp2", "v1.37.0-rc.1+abc"}}
	if diff := cmp.Diff(want, c.ControlPlane["kube-apiserver"]); diff != "" {
		t.Error(diff)
	}
	want = []Instance{{"cp1", "3.6.8-0"}, {"cp2", "3.6.8-0"}}
	if diff := cmp.Diff(want, c.ControlPlane["etcd"]); diff != "" {
		t.Error(diff)
	}
	want = []Instance{{"worker", "v1.35.1"}, {"cp1", "v1.36.3"}, {"cp2", "v1.36.3"}}
	if diff := cmp.Diff(want, c.Kubelets); diff != "" {
		t.Error(diff)
	}
	if c.CoreDNS != "v1.14.2" || !strings.Contains(*c.Corefile, "forward") {
		t.Errorf("CoreDNS is %q with %q", c.CoreDNS, *c.Corefile)
	}
	said := strings.Join(warnings, "\n")
	for _, part := range []string{"feature gate NodeLocalCRISocket was removed in 1.37",
		"v1.36.3 (cp1), v1.37.0-rc.1+abc (cp2)",
		"on the node with the newest one: kubeadm upgrade apply v1.37.0-rc.1+abc",
		"says Kubernetes v1.36.3, but the newest API server is v1.37.0-rc.1+abc"} {
		if !strings.Contains(said, part) {
			t.Errorf("no warning says %q:\n%s", part, said)
		}
	}
}

func TestComponentConfigs(t *testing.T) {
	const proxy = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-proxy, namespace: kube-system}, "
	for name, c := range map[string]struct {
		object string
		want   ComponentConfig
	}{
		"current": {proxy + `data: {config.conf: "apiVersion: kubeproxy.config.k8s.io/v1alpha1"}}`,
			ComponentConfig{"kubeproxy.config.k8s.io", "v1alpha1", "v1alpha1", false}},
		"no kube-proxy": {deleted("ConfigMap", "kube-proxy"),
			ComponentConfig{"kubeproxy.config.k8s.io", "", "v1alpha1", false}},
		"another version": {proxy +
			`data: {config.conf: "apiVersion: kubeproxy.config.k8s.io/v1alpha2"}}`,
			ComponentConfig{"kubeproxy.config.k8s.io", "v1alpha2", "v1alpha1", true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, testCluster(t, c.object).ComponentConfigs[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The kubelet of a worker can create a mirror Pod that looks like an API server's.
func TestPodsOfWorkersAreNoControlPlane(t *testing.T) {
	type read func(context.Context, state.Reader, state.Identity) (*Cluster, []string, error)
	bare := `{apiVersion: v1, kind: Node, metadata: {name: %s}}`
	for what, read := range map[string]read{"all nodes": ReadCluster, "labelled nodes": ReadControlPlane} {
		for _, image := range []string{"registry.k8s.io/kube-apiserver:v1.99.0", "kube-apiserver"} {
			c, warnings, err := read(t.Context(), testWorld(t, apiServer("worker", image)), state.Identity{})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Version.String(); got != "1.36.3" || len(c.ControlPlaneNodes) != 2 {
				t.Errorf("%s, %s: the version is %s, the control plane nodes are %q", what, image, got, c.ControlPlaneNodes)
			}
			if said := strings.Join(warnings, "\n"); !strings.Contains(said, "Pod kube-system/kube-apiserver-worker is ignored") {
				t.Errorf("%s, %s: the warnings are %q", what, image, said)
			}
		}
		c, _, err := read(t.Context(), testWorld(t, fmt.Sprintf(bare, "cp1"), fmt.Sprintf(bare, "cp2")), state.Identity{})
		if err != nil || len(c.ControlPlaneNodes) != 2 {
			t.Errorf("%s, without labels: %v", what, err)
		}
		c, _, err = read(t.Context(), testWorld(t, apiServer(`""`, "kube-apiserver:v1.36.3")), state.Identity{})
		if err != nil || len(c.ControlPlaneNodes) != 3 {
			t.Errorf("%s, with a Pod that has no node yet: %v", what, err)
		}
		c, _, err = read(t.Context(), testWorld(t, apiServer("gone", "kube-apiserver:v1.36.3")), state.Identity{})
		if err != nil || len(c.ControlPlaneNodes) != 3 {
			t.Errorf("%s, with the Pod of a Node that is gone: %v", what, err)
		}
	}
}

// A patch may put a sidecar before the container of a component: its image says nothing of the
// component's version.
func TestSidecarsBeforeComponents(t *testing.T) {
	sidecar := func(object, name string) string {
		return strings.Replace(object, "containers: [{", "containers: [{name: sidecar, image: \"x:v9.0.0\"}, {name: "+name+", ", 1)
	}
	etcd := strings.NewReplacer("kube-apiserver", "etcd").Replace(apiServer("cp1", "etcd:3.6.8-0"))
	c := testCluster(t, sidecar(apiServer("cp1", "kube-apiserver:v1.36.3"), "kube-apiserver"), sidecar(etcd, "etcd"))
	if got := c.Version.String(); got != "1.36.3" {
		t.Errorf("the cluster has version %s", got)
	}
	if got := c.ControlPlane["etcd"][0].Version; got != "3.6.8-0" {
		t.Errorf("etcd has version %s", got)
	}
	w, paths := testWorld(t), node.DefaultPaths()
	w.Files[paths.Manifest("kube-apiserver")] = memory.File{Mode: 0o600,
		Data: []byte(sidecar(apiServer("cp1", "kube-apiserver:v1.36.3"), "kube-apiserver"))}
	v, err := PresentVersion(t.Context(), w, paths)
	if err != nil || v == nil || v.String() != "1.36.3" {
		t.Errorf("the manifest has version %s: %v", v, err)
	}
}

func TestClustersThatCannotBeRead(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: other, namespace: kube-system, " +
		"labels: {k8s-app: kube-dns}}\n"
	for name, c := range map[string]struct{ object, want string }{
		"no kubeadm-config": {deleted("ConfigMap", "kubeadm-config"),
			"kubeadm init phase upload-config kubeadm"},
		"no configuration in it": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: kubeadm-config, " +
			"namespace: kube-system}}", "has no ClusterConfiguration"},
		"no kubelet-config": {deleted("ConfigMap", "kubelet-config"),
			"kubeadm init phase upload-config kubelet"},
		"image without a tag": {apiServer("cp1", "localhost:5000/kube-apiserver"), "has no tag"},
		"tag is no version": {apiServer("cp1", "kube-apiserver:latest"),
			`"latest", which is not a version`},
		"two CoreDNS": {deployment,
			"2 Deployments of kube-system have the label k8s-app=kube-dns"},
		"no key in ConfigMap": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: coredns, namespace: kube-system}}", "no key Corefile"},
		"version is a label": {strings.Replace(stored(""), "v1.36.3", "stable", 1),
			`"stable" is not a Kubernetes version`},
		"no kubernetesVersion": {strings.Replace(stored(""), "v1.36.3", `""`, 1),
			"has no kubernetesVersion"},
		"no API server": {deleted("Pod", "kube-apiserver-cp1") + "\n---\n" +
			deleted("Pod", "kube-apiserver-cp2"),
			"there is no kube-apiserver Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ReadCluster(t.Context(), testWorld(t, c.object), state.Identity{})
			if err == nil {
				t.Fatal("no error")
			}
			said := err.Error() + strings.Join(problem.Hints(err), "\n")
			if !strings.Contains(said, c.want) {
				t.Errorf("%q does not say %q", said, c.want)
			}
		})
	}
}

// slowNodes is a cluster whose Nodes arrive once all else has been asked for.
type slowNodes struct {
	state.Reader
	mu    sync.Mutex
	asked map[string]bool
	all   chan struct{}
}

func (r *slowNodes) ask(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[what] = true
	if r.asked["Pod"] && r.asked["Deployment"] && r.asked["coredns"] && r.asked["kube-proxy"] && r.asked["kubelet-config"] {
		select {
		case <-r.all:
		default:
			close(r.all)
		}
	}
}

func (r *slowNodes) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	r.ask(ref.Name)
	return r.Reader.Object(ctx, ref)
}

func (r *slowNodes) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	r.ask(q.GVK.Kind)
	if q.GVK == state.NodeKind {
		select {
		case <-r.all:
		case <-time.After(time.Minute):
			return nil, errors.New("the rest was not read meanwhile")
		}
	}
	return r.Reader.List(ctx, q)
}

func TestRestIsReadWhileNodesArrive(t *testing.T) {
	r := &slowNodes{Reader: testWorld(t), asked: map[string]bool{}, all: make(chan struct{})}
	if _, _, err := ReadCluster(t.Context(), r, state.Identity{}); err != nil {
		t.Error(err)
	}
}

// A panic reaches the caller, whose deferred functions clean up, after all reads have ended.
func TestPanicOfReadReachesCaller(t *testing.T) {
	ended := false
	defer func() {
		if p := recover(); p != "broken" || !ended {
			t.Errorf("recovered %v, the other read has ended: %t", p, ended)
		}
	}()
	readTogether(func() error { panic("broken") }, func() error { ended = true; return nil })
	t.Error("there was no panic")
}
