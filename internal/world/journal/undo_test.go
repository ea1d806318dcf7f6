package journal_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

// restarting is a machine whose API server answers only reads that are retried.
type restarting struct {
	*fake.World
	unretried int
}

func (w *restarting) Object(ctx context.Context,
	ref state.Ref) (*unstructured.Unstructured, error) {
	if world.RetryLimit(ctx) == 0 {
		w.unretried++
		return nil, errors.New("connection refused")
	}
	return w.World.World.Object(ctx, ref)
}

func (w *restarting) Do(ctx context.Context, c change.Change) error {
	return w.World.World.Do(ctx, c)
}

func TestInverseIsReadWithRetries(t *testing.T) {
	machine := &restarting{World: fake.New()}
	w := opened(t, machine, &journal.Memory{}, journal.RunID{Command: "init"})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	e := engine.New(engine.Env{
		World: w, Undoer: w, Emit: func(engine.Event) {},
		Local: node.Local{Timeouts: node.Timeouts{KubernetesAPI: time.Minute}},
	})
	w.Mark()
	if err := e.Do(t.Context(), change.ApplyObject{Object: secret}); err != nil ||
		machine.unretried > 0 {
		t.Errorf("%v; %d reads were not retried", err, machine.unretried)
	}
}

// writeRecorder records what is written to one file, in order.
type writeRecorder struct {
	world.World
	path  string
	texts []string
}

func (w *writeRecorder) Do(ctx context.Context, c change.Change) error {
	if f, ok := c.(change.WriteFile); ok && f.Path == w.path {
		w.texts = append(w.texts, string(f.Data))
	}
	return w.World.Do(ctx, c)
}

// A file that was written several times is restored in one step: a program that watches it sees no
// version in between.
func TestUndoRestoresFileInOneStep(t *testing.T) {
	const path = "/etc/kubernetes/manifests/etcd.yaml"
	write := func(text string) change.Change {
		return change.WriteFile{Path: path, Data: []byte(text), Mode: 0o600}
	}
	for name, c := range map[string]struct {
		did  []change.Change
		want []string // is written during the undo
	}{
		"written once":     {[]change.Change{write("1")}, []string{"0"}},
		"written twice":    {[]change.Change{write("1"), write("2")}, []string{"0"}},
		"restored already": {[]change.Change{write("1"), write("0")}, nil},
		"removed and created again": {[]change.Change{write("1"), change.Remove{Path: path},
			write("2")}, []string{"1", "0"}},
		"between changes of other files": {[]change.Change{write("1"),
			change.WriteFile{Path: "/x"}, write("2")}, []string{"0"}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := fake.New()
			machine.Files[path] = memory.File{Data: []byte("0"), Mode: 0o600}
			recorder := &writeRecorder{World: machine, path: path}
			w := opened(t, recorder, &journal.Memory{}, journal.RunID{Command: "test"})
			mark := w.Mark()
			for _, did := range c.did {
				if err := w.Do(t.Context(), did); err != nil {
					t.Fatal(err)
				}
			}
			recorder.texts = nil
			if err := w.Undo(t.Context(), mark, func(change.Change, error) {}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(recorder.texts, c.want) || string(machine.Files[path].Data) != "0" {
				t.Errorf("written are %q, want %q; the file holds %q", recorder.texts, c.want,
					machine.Files[path].Data)
			}
			if _, left := machine.Files["/x"]; left {
				t.Error("/x is left")
			}
		})
	}
}
