package reconfiguration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/config"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// putNode creates a Node, or replaces it.
func putNode(t *testing.T, w *fake.World, name string, n corev1.Node) {
	t.Helper()
	n.Name = name
	n.SetGroupVersionKind(state.NodeKind)
	if err := w.PutObject(&n); err != nil {
		t.Fatal(err)
	}
}

// A Node is up to date by its annotation, or if it is clearly younger than the change.
func TestReadProgress(t *testing.T) {
	w := newWorld()
	stored := metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := &State{ID: "id", Stored: &stored, ControlPlanes: true, Workers: true}
	for name, n := range map[string]metav1.ObjectMeta{
		"done":    {Annotations: map[string]string{NodeAnnotation: "id"}},
		"earlier": {Annotations: map[string]string{NodeAnnotation: "other"}},
		"old":     {},
		"joining": {CreationTimestamp: metav1.Time{Time: stored.Add(time.Minute)}},
		"young":   {CreationTimestamp: metav1.Time{Time: stored.Add(time.Hour)}},
	} {
		putNode(t, w, name, corev1.Node{ObjectMeta: n})
	}
	all, err := s.ReadProgress(t.Context(), w, state.Identity{})
	if got := fmt.Sprint(ListBehind(all, false)); err != nil || got != "[earlier joining old]" {
		t.Errorf("behind are %s, %v", got, err)
	}
}

// A Node that was deleted and registered again after the change is not up to date: its machine may have missed it. A
// Node with a new name has joined.
func TestReadProgressOfNodesRegisteredAgain(t *testing.T) {
	w, as := newWorld(), state.Identity{}
	stored := metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := New("cp1", config.StoredConfig{Cluster: "name: a"}, config.StoredConfig{Cluster: "name: b"}, stored.Time)
	s.Stored, s.Workers = &stored, true
	for _, name := range []string{"again", "begun", "done", "same", "followed-again"} {
		putNode(t, w, name, corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name + "-1")}})
	}
	if err := s.RecordNodes(t.Context(), w, as); err != nil {
		t.Fatal(err)
	}
	changes, err := s.StoreChanges(as)
	for _, c := range changes {
		if err == nil {
			err = w.Do(t.Context(), c)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	later := metav1.Time{Time: stored.Add(48 * time.Hour)}
	has := map[string]string{NodeAnnotation: s.ID}
	putNode(t, w, "again", corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "again-2", CreationTimestamp: later}})
	putNode(t, w, "followed-again", corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "followed-2", CreationTimestamp: later,
		Annotations: has}})
	putNode(t, w, "done", corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "done-1", Annotations: has}})
	putNode(t, w, "begun", corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "begun-1", Annotations: map[string]string{NodeAnnotation: s.begun()}}})
	putNode(t, w, "new", corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "new-1", CreationTimestamp: later}})
	found, err := Read(t.Context(), w, as)
	if err != nil {
		t.Fatal(err)
	}
	all, err := found.ReadProgress(t.Context(), w, as)
	var got []string
	for _, n := range all {
		got = append(got, fmt.Sprintf("%s %t %t %t", n.Name, n.Done, n.Reregistered, n.Untouched))
	}
	const want = "again false true false, begun false false false, done true false false, followed-again true false false, " +
		"new true false false, same false false true"
	if text := strings.Join(got, ", "); err != nil || text != want {
		t.Errorf("the nodes are %s, %v", text, err)
	}
	if public, err := ReadPublic(t.Context(), w, as); err != nil || public.Nodes != "" {
		t.Errorf("nodes may read %q, %v", public.Nodes, err)
	}
}
