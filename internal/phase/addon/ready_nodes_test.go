package addon_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/phase/addon"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// daemonSet is a cluster whose controller replaces each Pod of kube-proxy that is evicted.
type daemonSet struct {
	*scene
	t       *testing.T
	evicted []string
	listed  int // how often all Pods of kube-proxy were listed
}

func (d *daemonSet) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	if q.GVK.Kind == "Pod" && q.FieldSelector == "" {
		d.listed++
	}
	return d.scene.List(ctx, q)
}

func (d *daemonSet) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, d) }
	return d.scene.Await(ctx, c)
}

// newDaemonSet is a cluster with kube-proxy and without CoreDNS.
func newDaemonSet(t *testing.T) *daemonSet {
	t.Helper()
	d := &daemonSet{scene: newScene(), t: t}
	d.e.World = d
	d.node.Cluster.DNS.Disabled, d.node.Cluster.KubeProxy.Config = true, &proxyconfig.KubeProxyConfiguration{}
	d.node.Cluster.Endpoint = "192.0.2.10:6443"
	before, err := manifest.NewKubeProxy(d.node, manifest.Host{}, manifest.Patches{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range before.Objects() {
		if err := d.World.Do(t.Context(), change.ApplyObject{Object: o}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// changeEndpoint begins the change that kube-proxy gets.
func (d *daemonSet) changeEndpoint() *reconfiguration.State {
	previous := *d.node
	d.node.Cluster.Endpoint = "192.0.2.20:6443"
	change := &reconfiguration.State{ID: "1",
		Endpoint: &reconfiguration.EndpointChange{From: []string{"https://192.0.2.10:6443"}, To: "https://192.0.2.20:6443"}}
	d.e.Intent = reconfiguration.Intent{Before: &previous, Change: change}
	return change
}

func (d *daemonSet) Do(ctx context.Context, c change.Change) error {
	evict, ok := c.(change.EvictPod)
	if !ok {
		return d.scene.Do(ctx, c)
	}
	d.evicted = append(d.evicted, evict.Name)
	set, err := d.Object(ctx, state.Ref{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Namespace: "kube-system", Name: "kube-proxy"})
	if err != nil {
		return err
	}
	annotations, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "annotations")
	d.addPod(evict.Name, annotations, corev1.ConditionTrue)
	return nil
}

// addPod adds a Pod of kube-proxy, which is named after its node.
func (d *daemonSet) addPod(node string, annotations map[string]string, ready corev1.ConditionStatus) {
	d.t.Helper()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: node, Labels: map[string]string{"k8s-app": "kube-proxy"},
			Annotations: annotations},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	d.put(pod)
}

func (d *daemonSet) addNode(name string, ready corev1.ConditionStatus) {
	d.t.Helper()
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	d.put(n)
}

// put stores an object with its status.
func (d *daemonSet) put(o state.Object) {
	d.t.Helper()
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		d.t.Fatal(err)
	}
	d.Objects[memory.Key{Kind: o.GetObjectKind().GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName()}] =
		&unstructured.Unstructured{Object: all}
}

// Where a node, or its Pod, is not ready, the DaemonSet would replace no Pod of kube-proxy: those on the other nodes are
// evicted, once.
func TestProxyOnReadyNodes(t *testing.T) {
	for name, c := range map[string]struct {
		node, pod corev1.ConditionStatus // of worker2
		want      []string
	}{
		"all are ready":         {corev1.ConditionTrue, corev1.ConditionTrue, nil},
		"a node is not ready":   {corev1.ConditionUnknown, corev1.ConditionTrue, []string{"cp1", "worker1"}},
		"its Pod was not ready": {corev1.ConditionTrue, corev1.ConditionFalse, []string{"cp1", "worker1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemonSet(t)
			for _, name := range []string{"cp1", "worker1"} {
				d.addNode(name, corev1.ConditionTrue)
				d.addPod(name, nil, corev1.ConditionTrue)
			}
			d.addNode("worker2", c.node)
			d.addPod("worker2", nil, c.pod)
			d.changeEndpoint()
			for range 2 {
				if err := engine.Run(t.Context(), d.e, []engine.Phase{addon.Reconfigure}, engine.Selection{}); err != nil {
					t.Fatal(err)
				}
			}
			if slices.Sort(d.evicted); !slices.Equal(d.evicted, c.want) {
				t.Errorf("evicted %v, want %v", d.evicted, c.want)
			}
		})
	}
}

// All Pods of kube-proxy are listed as often for 60 nodes as for 3.
func TestListsOfPodsDoNotGrowWithNodes(t *testing.T) {
	listed := func(nodes int) int {
		d := newDaemonSet(t)
		for i := range nodes {
			name := fmt.Sprintf("worker%d", i)
			d.addNode(name, corev1.ConditionTrue)
			d.addPod(name, nil, corev1.ConditionTrue)
		}
		d.addNode("down", corev1.ConditionUnknown)
		d.changeEndpoint()
		if err := engine.Run(t.Context(), d.e, []engine.Phase{addon.Reconfigure}, engine.Selection{}); err != nil {
			t.Fatal(err)
		}
		if len(d.evicted) != nodes {
			t.Errorf("evicted %v", d.evicted)
		}
		return d.listed
	}
	if few, many := listed(3), listed(60); few != many {
		t.Errorf("listed %d times with 3 nodes, %d times with 60", few, many)
	}
}
