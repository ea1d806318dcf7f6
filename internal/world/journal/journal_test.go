package journal_test

import (
	"errors"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
)

// full is a store whose disk has no room for the end of one line.
type full struct {
	journal.Memory
	lines, cut int
}

var errFull = errors.New("no space left")

func (f *full) Append(name string, data []byte) error {
	f.lines++
	if f.lines != f.cut {
		return f.Memory.Append(name, data)
	}
	return errors.Join(f.Memory.Append(name, data[:len(data)/2]), errFull)
}

// A line that a full disk cut off must not spoil the one that follows it.
func TestALineAfterACutOneIsRead(t *testing.T) {
	for _, cut := range []int{1, 2} {
		store, run := &full{cut: cut}, journal.Run{Command: "init"}
		w := opened(t, store, run)
		for i, path := range []string{"/a", "/b", "/c"} {
			err := w.Do(t.Context(), change.WriteFile{Path: path, Mode: 0o600})
			if want := i+1 == cut; errors.Is(err, errFull) != want {
				t.Fatalf("writing %s: %v", path, err)
			}
		}
		again := opened(t, store, run)
		for i, path := range []string{"/a", "/b", "/c"} {
			if made := again.Made(change.FileTarget(path)); made != (i+1 != cut) {
				t.Errorf("line %d was cut; Made(%s) = %v", cut, path, made)
			}
		}
	}
}

func opened(t *testing.T, store journal.Store, run journal.Run) *journal.World {
	t.Helper()
	w, err := journal.Open(fake.New(), store, run)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
