package dryrun_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

var as = state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}

func newPod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "c:1"}}
	return p
}

// listPods lists the names and images of all Pods.
func listPods(t *testing.T, w *dryrun.World) (list []string) {
	t.Helper()
	found, err := w.List(t.Context(), state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "kube-system", As: as})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "containers")
		list = append(list, u.GetName()+" "+containers[0].(map[string]any)["image"].(string))
	}
	slices.Sort(list)
	return list
}

// A simulated cluster takes the place of the real one, as changed by the run.
func TestSimulatedClusterIsListed(t *testing.T) {
	below := fake.New()
	if err := below.AddObjects(`{apiVersion: v1, kind: Pod, metadata: {name: real,
 namespace: kube-system}, spec: {containers: [{image: "c:1"}]}}`); err != nil {
		t.Fatal(err)
	}
	w := dryrun.New(below, "", dryrun.Paths{})
	if err := w.SimulateCluster(map[string]string{}, newPod("a"), newPod("b"),
		newPod("c")); err != nil {
		t.Fatal(err)
	}
	changed := newPod("b")
	changed.Spec.Containers[0].Image = "c:2"
	ref := state.RefOf(newPod("c"), as)
	for _, c := range []change.Change{change.ApplyObject{Object: changed, As: as},
		change.ApplyObject{Object: newPod("d"), As: as}, change.DeleteObject{Ref: ref}} {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := listPods(t, w), []string{"a c:1", "b c:2", "d c:1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := w.Object(t.Context(), ref); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted Pod is read: %v", err)
	}
}

// The Node that a started kubelet registers does not replace that of a simulated cluster.
func TestSimulatedNodeKeepsStatus(t *testing.T) {
	w := dryrun.New(fake.New(), "", dryrun.Paths{Node: "cp1"})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp1"}}
	node.SetGroupVersionKind(state.NodeKind)
	node.Status.NodeInfo.KubeletVersion = "v1.37.0"
	if err := w.SimulateCluster(map[string]string{}, node); err != nil {
		t.Fatal(err)
	}
	if err := w.Await(t.Context(), world.Condition{Name: "the kubelet"}); err != nil {
		t.Fatal(err)
	}
	found, err := w.Object(t.Context(), state.Ref{GVK: state.NodeKind, Name: "cp1", As: as})
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := unstructured.NestedString(found.Object, "status", "nodeInfo",
		"kubeletVersion"); v != "v1.37.0" {
		t.Errorf("the kubelet's version is %q", v)
	}
}

func TestSimulatedMachineKeepsRealFiles(t *testing.T) {
	below := fake.New()
	below.Files["/etc/real"] = memory.File{Data: []byte("real"), Mode: 0o644}
	before := below.Snapshot()
	w := dryrun.New(below, "/copies", dryrun.Paths{})
	members := []state.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.1:2380"}}}
	if err := w.SimulateMachine(t.Context(), map[string][]byte{"/etc/real": []byte("simulated"),
		"/etc/missing": []byte("simulated")}, members); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/etc/real": "real", "/etc/missing": "simulated"} {
		if got, err := w.ReadFile(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	if got, err := w.Members(t.Context(), state.Etcd{}); err != nil || len(got) != 1 {
		t.Errorf("the members are %v, %v", got, err)
	}
	if below.Snapshot() != before {
		t.Error("the simulation changed the machine")
	}
}

// noRuntime is a machine without a container runtime.
type noRuntime struct {
	*fake.World
	asked *int
}

func (w noRuntime) Containers(context.Context, string) ([]state.Container, error) {
	*w.asked++
	return nil, errors.New("does not answer")
}

func TestDryRunNeedsNoContainerRuntime(t *testing.T) {
	asked := 0
	w := dryrun.New(noRuntime{fake.New(), &asked}, "", dryrun.Paths{})
	var told []string
	ctx := world.WithProgress(t.Context(), func(text string) { told = append(told, text) })
	for range 3 {
		if all, err := w.Containers(ctx, ""); err != nil || len(all) != 0 {
			t.Errorf("got %v, %v", all, err)
		}
	}
	if asked != 1 || len(told) != 1 || !strings.Contains(told[0], "does not answer") {
		t.Errorf("the container runtime was asked %d times, and this was told: %q", asked, told)
	}
}
