package journal_test

import (
	"context"
	"slices"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

// written notes what is written to one file, in order.
type written struct {
	world.World
	path  string
	texts []string
}

func (w *written) Do(ctx context.Context, c change.Change) error {
	if f, ok := c.(change.WriteFile); ok && f.Path == w.path {
		w.texts = append(w.texts, string(f.Data))
	}
	return w.World.Do(ctx, c)
}

// A file that was written several times goes back in one step: whoever watches it sees no version
// in between.
func TestFileGoesBackInOneStep(t *testing.T) {
	const path = "/etc/kubernetes/manifests/etcd.yaml"
	write := func(text string) change.Change {
		return change.WriteFile{Path: path, Data: []byte(text), Mode: 0o600}
	}
	for name, c := range map[string]struct {
		did  []change.Change
		want []string // is written while it is undone
	}{
		"written once":     {[]change.Change{write("1")}, []string{"0"}},
		"written twice":    {[]change.Change{write("1"), write("2")}, []string{"0"}},
		"put back already": {[]change.Change{write("1"), write("0")}, nil},
		"removed and created again": {[]change.Change{write("1"), change.Remove{Path: path},
			write("2")}, []string{"1", "0"}},
		"beside changes of others": {[]change.Change{write("1"), change.WriteFile{Path: "/x"},
			write("2")}, []string{"0"}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := fake.New()
			machine.Files[path] = memory.File{Data: []byte("0"), Mode: 0o600}
			seen := &written{World: machine, path: path}
			w := opened(t, seen, &journal.Memory{}, journal.Run{Command: "test"})
			mark := w.Mark()
			for _, did := range c.did {
				if err := w.Do(t.Context(), did); err != nil {
					t.Fatal(err)
				}
			}
			seen.texts = nil
			if err := w.Undo(t.Context(), mark, func(change.Change, error) {}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(seen.texts, c.want) || string(machine.Files[path].Data) != "0" {
				t.Errorf("written are %q, want %q; the file holds %q", seen.texts, c.want,
					machine.Files[path].Data)
			}
			if _, left := machine.Files["/x"]; left {
				t.Error("/x is left")
			}
		})
	}
}
