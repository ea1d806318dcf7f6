package rotation

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// newCA returns the certificate of a CA and its key, both in PEM form.
func newCA(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, k, pki.Spec{CommonName: "ca",
		Validity: pki.NewValidity(time.Now(), time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(ca.Certificate)), string(text)
}

// What the ConfigMap holds is checked before a node acts on it: whoever may write it must not make
// nodes trust what is no CA, or read a key from it.
func TestStoredStateIsChecked(t *testing.T) {
	before, key := newCA(t)
	after, _ := newCA(t)
	for want, spoil := range map[string]func(*State){
		"":                               func(*State) {},
		`unknown stage "later"`:          func(r *State) { r.Stage = "later" },
		`unknown stage ""`:               func(r *State) { r.Stage = "" },
		"no id or no authorities":        func(r *State) { r.ID = "" },
		"it has no id or no authorities": func(r *State) { r.Authorities = nil },
		`unknown authority "kubelet"`:    func(r *State) { r.Authorities = append(r.Authorities, "kubelet") },
		"authority etcd":                 func(r *State) { r.Authorities = append(r.Authorities, EtcdAuthority) },
		"authority cluster":              func(r *State) { delete(r.Old, ClusterAuthority) },
		"not a single CA certificate":    func(r *State) { r.New[ClusterAuthority] += before },
		"contains a private key":         func(r *State) { r.New[ClusterAuthority] += key },
	} {
		r := &State{ID: "a", Stage: Trust, Authorities: []string{ClusterAuthority},
			Old: map[string]string{ClusterAuthority: before},
			New: map[string]string{ClusterAuthority: after}}
		spoil(r)
		err := r.check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want error %q, got %v", want, err)
		}
	}
}

// A worker that reached Sign before all control plane nodes signed with the new CA may have a
// certificate of the old one: it counts as if it were in the stage before. The time of the switch tells.
func TestWorkerThatSwitchedTooEarlyIsStillInStageTrust(t *testing.T) {
	then, later := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	for name, c := range map[string]struct {
		now, reported *metav1.Time // Switched, of the rotation and of the node
		id            string
		stage, want   Stage
		isControl     bool
	}{
		"since the switch":               {now: &then, reported: &then, stage: Sign, want: Sign},
		"before the switch":              {now: &then, stage: Sign, want: Trust},
		"before another switch":          {now: &later, reported: &then, stage: Sign, want: Trust},
		"after an undo of the switch":    {reported: &then, stage: Sign, want: Trust},
		"before the switch back":         {now: &then, stage: UndoSign, want: Trust},
		"a stage without a switch":       {now: &then, stage: Trust, want: Trust},
		"the last stage":                 {now: &then, stage: Finish, want: Finish},
		"a control plane node":           {now: &then, stage: Sign, want: Sign, isControl: true},
		"a report of another rotation":   {now: &then, reported: &then, id: "old", stage: Sign},
		"neither switched nor reported":  {stage: Sign, want: Sign},
		"none of the stages was reached": {now: &then},
	} {
		id := "a"
		if c.id != "" {
			id = c.id
		}
		text, err := json.Marshal(progress{ID: id, Stage: c.stage, Switched: c.reported})
		if err != nil {
			t.Fatal(err)
		}
		label := ""
		if c.isControl {
			label = `node-role.kubernetes.io/control-plane: ""`
		}
		w := newCluster(t, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: node1, labels: {%s},
  annotations: {%s: %q}}}`, label, NodeAnnotation, text))
		r := &State{ID: "a", Stage: Sign, Authorities: []string{ClusterAuthority}, Switched: c.now}
		got, err := r.ReadProgress(t.Context(), w, state.Identity{})
		want := []NodeProgress{{Name: "node1", ControlPlane: c.isControl, Stage: c.want}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// A rotation of etcd's CA does not concern workers. A damaged annotation counts as none.
func TestWhichNodesARotationConcerns(t *testing.T) {
	w := newCluster(t, `{apiVersion: v1, kind: Node, metadata: {name: worker1}}
---
{apiVersion: v1, kind: Node, metadata: {name: cp2, annotations: {`+NodeAnnotation+`: "{"},
  labels: {node-role.kubernetes.io/control-plane: ""}}}
---
{apiVersion: v1, kind: Node, metadata: {name: cp1,
  labels: {node-role.kubernetes.io/control-plane: ""}}}`)
	for authority, want := range map[string]string{EtcdAuthority: "cp1 cp2",
		ClusterAuthority: "cp1 cp2 worker1"} {
		r := &State{ID: "a", Stage: Trust, Authorities: []string{authority}}
		all, err := r.ReadProgress(t.Context(), w, state.Identity{})
		if got := strings.Join(ListBehind(all, Trust, false), " "); err != nil || got != want {
			t.Errorf("%s: behind are %q, %v; want %q", authority, got, err, want)
		}
		if got := strings.Join(ListBehind(all, Trust, true), " "); got != "cp1 cp2" {
			t.Errorf("%s: control plane nodes behind are %q", authority, got)
		}
	}
}

// newCluster returns a cluster whose API server accepts every identity.
func newCluster(t *testing.T, objects string) *fake.World {
	t.Helper()
	w := fake.New()
	w.RemoteAPIServer = true
	if err := w.AddObjects(objects); err != nil {
		t.Fatal(err)
	}
	return w
}
