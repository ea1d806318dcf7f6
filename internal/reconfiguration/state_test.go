package reconfiguration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/manifest"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// A change is read as it was stored. While it is not stored as the cluster's configuration, the one before it
// is the latest, and again once it is taken back.
func TestStateOfChanges(t *testing.T) {
	w, as := newWorld(), state.Identity{}
	read := func() *State {
		t.Helper()
		found, err := Read(t.Context(), w, as)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	store := func(s *State) {
		t.Helper()
		changes, err := s.StoreChanges(as)
		for _, c := range changes {
			if err == nil {
				err = w.Do(t.Context(), c)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if found := read(); found.Latest() != nil {
		t.Errorf("before the first change there is %+v", found)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	first := New("cp1", config.StoredConfig{Cluster: "name: a"}, config.StoredConfig{Cluster: "name: b"}, now)
	first.Stored = &metav1.Time{Time: now}
	store(first)
	second := New("cp1", first.After, config.StoredConfig{Cluster: "name: c"}, now.Add(time.Hour))
	second.Earlier = first
	store(second)
	if found := read(); found.ID != second.ID || found.Latest().ID != first.ID || first.ID == second.ID {
		t.Errorf("during the second change there is %+v", found)
	}
	changes, err := second.Earlier.StoreChanges(as)
	for _, c := range changes {
		if err == nil {
			err = w.Do(t.Context(), c)
		}
	}
	if found := read(); err != nil || found.ID != first.ID {
		t.Errorf("after the second change was taken back there is %+v, %v", found, err)
	}
}

// What every node may read has nothing of what only control plane nodes use: it may be secret.
func TestPublicState(t *testing.T) {
	w, as := newWorld(), state.Identity{}
	const removed = `
apiServer: {extraEnvs: [{name: PASSWORD, value: hidden-env}], extraArgs: [{name: a, value: hidden-arg}]}
etcd: {local: {extraEnvs: [{name: PASSWORD, value: hidden-etcd}]}}
clusterName: one
`
	first := New("cp1", config.StoredConfig{Cluster: removed}, config.StoredConfig{Cluster: removed}, time.Now())
	second := New("cp1", config.StoredConfig{Cluster: removed, Kubelet: config.StoredComponent{Text: "maxPods: 9"}},
		config.StoredConfig{Cluster: "clusterName: one"}, time.Now())
	second.Earlier = first
	changes, err := second.StoreChanges(as)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for key, o := range w.Objects {
		if text := fmt.Sprint(o.Object); key.Kind.Kind != "Secret" && strings.Contains(text, "hidden") {
			t.Errorf("%s shows %s", key.Kind.Kind, text)
		}
	}
	got, err := ReadPublic(t.Context(), w, as)
	if err != nil || got.ID != second.ID || got.Before.Kubelet.Text != "maxPods: 9" ||
		!strings.Contains(got.Before.Cluster, "clusterName: one") {
		t.Errorf("nodes read %+v, %v", got, err)
	}
	if all, err := Read(t.Context(), w, as); err != nil || all.Before.Cluster != removed {
		t.Errorf("administrators read %+v, %v", all, err)
	}
}

// Fields that a newer kubeadm has stored stay with their change, also in the part that every node may read.
func TestUnknownFieldsOfStateStay(t *testing.T) {
	const before = `
id: b
future: [1, two]
endpoint: {from: [a], to: b, future: {of: endpoint}}
earlier: {id: a, future: of a, before: {}, after: {Cluster: "name: a"}}
before: {Cluster: "name: a"}
after: {Cluster: "name: b", future: true}
`
	w, as := newWorld(), state.Identity{}
	store := func(s *State) {
		t.Helper()
		changes, err := s.StoreChanges(as)
		for _, c := range changes {
			if err == nil {
				err = w.Do(t.Context(), c)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(secret bool, want ...string) {
		t.Helper()
		var o state.Object = manifest.NewReconfiguration("")
		if secret {
			o = manifest.NewReconfigurationSecret("")
		}
		u, err := w.Object(t.Context(), state.RefOf(o, as))
		if err != nil {
			t.Fatal(err)
		}
		text, err := textOf(u)
		if got := strings.Count(text, "future:"); err != nil || got != len(want) {
			t.Errorf("there are %d unknown fields, want %q in\n%s", got, want, text)
		}
		for _, one := range want {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), one) {
				t.Errorf("%q is missing in\n%s", one, text)
			}
		}
	}
	for _, o := range []state.Object{manifest.NewReconfigurationSecret(before), manifest.NewReconfiguration(before)} {
		if err := w.PutObject(o); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Read(t.Context(), w, as)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"future: - 1 - two", "future: of: endpoint", "future: of a", "future: true"}
	for range 2 {
		store(found)
		check(true, all...)
		check(false, all...)
	}
	next := New("cp1", found.After, found.Before, time.Now())
	next.Earlier = found
	store(next)
	check(true, all...)
	store(found.Earlier)
	check(true, "future: of a")
	check(false, "future: of a")
	store(New("cp1", found.Before, found.After, time.Now()))
	check(true)
}

// newWorld is a machine whose API server answers.
func newWorld() *fake.World {
	w := fake.New()
	w.RemoteAPIServer = true
	return w
}
