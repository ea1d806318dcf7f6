package rotateca

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// A subcommand stands for another stage, depending on the stage of the cluster and of its nodes. What
// cannot follow is refused with the command to run instead.
func TestNextStage(t *testing.T) {
	switched := metav1.NewTime(time.Unix(1000, 0))
	for _, c := range []struct {
		now, command rotation.Stage
		cp, worker   rotation.Stage // that the nodes have reached
		isSwitched   bool           // all control plane nodes have reached it
		want         rotation.Stage
		refused      string // what the error or its hint says
	}{
		{now: rotation.Trust, command: rotation.Trust, want: rotation.Trust},
		{now: rotation.Trust, command: rotation.Sign, cp: rotation.Trust, worker: rotation.Trust, want: rotation.Sign},
		{now: rotation.Trust, command: rotation.Sign, cp: rotation.Trust,
			refused: "have not reached stage \"trust\": worker1"},
		{now: rotation.Trust, command: rotation.Sign, worker: rotation.Trust,
			refused: "have not reached stage \"trust\": cp1"},
		{now: rotation.Trust, command: rotation.Finish, refused: "run kubeadm certs rotate-ca sign"},
		{now: rotation.Trust, command: rotation.Undo, want: rotation.Undo},

		{now: rotation.Sign, command: rotation.Trust, want: rotation.Sign},
		{now: rotation.Sign, command: rotation.Sign, want: rotation.Sign},
		{now: rotation.Sign, command: rotation.Finish, cp: rotation.Sign, worker: rotation.Sign, isSwitched: true,
			want: rotation.Finish},
		{now: rotation.Sign, command: rotation.Finish, cp: rotation.Sign, isSwitched: true,
			refused: "have not reached stage \"sign\": worker1"},
		{now: rotation.Sign, command: rotation.Finish, cp: rotation.Sign, worker: rotation.Sign,
			refused: "once more on a control plane node: kubeadm certs rotate-ca sign"},
		{now: rotation.Sign, command: rotation.Undo, want: rotation.UndoSign},

		{now: rotation.UndoSign, command: rotation.Trust, want: rotation.UndoSign},
		{now: rotation.UndoSign, command: rotation.Sign, refused: "kubeadm certs rotate-ca undo"},
		{now: rotation.UndoSign, command: rotation.Finish, refused: "kubeadm certs rotate-ca undo"},
		{now: rotation.UndoSign, command: rotation.Undo, cp: rotation.UndoSign, isSwitched: true,
			want: rotation.UndoSign},
		{now: rotation.UndoSign, command: rotation.Undo, cp: rotation.UndoSign, worker: rotation.UndoSign,
			want: rotation.UndoSign}, // killed before it stored when all nodes had switched
		{now: rotation.UndoSign, command: rotation.Undo, cp: rotation.UndoSign, worker: rotation.UndoSign,
			isSwitched: true, want: rotation.Undo},

		{now: rotation.Finish, command: rotation.Finish, want: rotation.Finish},
		{now: rotation.Finish, command: rotation.Trust, refused: "kubeadm certs rotate-ca finish"},
		{now: rotation.Finish, command: rotation.Sign, refused: "kubeadm certs rotate-ca finish"},
		{now: rotation.Finish, command: rotation.Undo, refused: "old keys have already been removed"},
		{now: rotation.Undo, command: rotation.Undo, want: rotation.Undo},
		{now: rotation.Undo, command: rotation.Sign, refused: "kubeadm certs rotate-ca undo"},
	} {
		w := fake.New()
		w.RemoteAPIServer = true
		m := machine{node: &node.Node{}, e: engine.New(engine.Env{World: w}), State: &rotation.State{
			ID: "a", Stage: c.now, Authorities: []string{rotation.ClusterAuthority}}}
		if c.isSwitched {
			m.Switched = &switched
		}
		for name, reached := range map[string]rotation.Stage{"cp1": c.cp, "worker1": c.worker} {
			putNode(t, w, name, m.State, reached)
		}
		got, err := m.nextStage(t.Context(), c.command)
		said := ""
		if err != nil {
			said = err.Error() + "\n" + strings.Join(problem.Hints(err), "\n")
		}
		if got != c.want || (err != nil) != (c.refused != "") || !strings.Contains(said, c.refused) {
			t.Errorf("stage %q (nodes: %q, %q; switched: %v), %q: got %q, %s; want %q %s", c.now, c.cp, c.worker,
				c.isSwitched, c.command, got, said, c.want, c.refused)
		}
	}
}

// putNode adds a Node that has reached a stage of the rotation. Its name begins with cp if it is a
// control plane node.
func putNode(t *testing.T, w *fake.World, name string, r *rotation.State, reached rotation.Stage) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.SetGroupVersionKind(state.NodeKind)
	if strings.HasPrefix(name, "cp") {
		n.Labels = map[string]string{node.ControlPlaneLabel: ""}
	}
	if reached != "" {
		text, err := json.Marshal(map[string]any{"id": r.ID, "stage": reached, "switched": r.Switched})
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{rotation.NodeAnnotation: string(text)}
	}
	if err := w.PutObject(n); err != nil {
		t.Fatal(err)
	}
}

// What signs comes first among the CAs that are trusted, and alone at the end.
func TestTrustedInEachStage(t *testing.T) {
	m := machine{State: &rotation.State{Old: map[string]string{"etcd": "old\n"},
		New: map[string]string{"etcd": "new\n"}}}
	for stage, want := range map[rotation.Stage]string{
		rotation.Trust: "old\nnew\n", rotation.Sign: "new\nold\n", rotation.Finish: "new\n",
		rotation.UndoSign: "old\nnew\n", rotation.Undo: "old\n",
	} {
		if got := string(m.trusted(stage, "etcd")); got != want {
			t.Errorf("%s: trusted are %q, want %q", stage, got, want)
		}
	}
}

// A second rotation cannot be started, and one in progress cannot be extended.
func TestRotationInProgressIsNotExtended(t *testing.T) {
	r := &rotation.State{Authorities: []string{rotation.ClusterAuthority}}
	for _, c := range []struct {
		names   []string
		refused bool
	}{
		{names: nil}, {names: []string{rotation.ClusterAuthority}},
		{names: []string{rotation.ClusterAuthority, rotation.EtcdAuthority}, refused: true},
	} {
		err := checkAuthorities(r, rotation.Options{Authorities: c.names})
		if (err != nil) != c.refused {
			t.Errorf("--ca %v: %v", c.names, err)
		}
	}
}
