package journal_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
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

// A line that a full disk truncated must not corrupt the next one.
func TestLineAfterTruncatedLineIsRead(t *testing.T) {
	for _, cut := range []int{1, 2} {
		store, run := &full{cut: cut}, journal.RunID{Command: "init"}
		machine := fake.New()
		w := opened(t, machine, store, run)
		for i, path := range []string{"/a", "/b", "/c"} {
			err := w.Do(t.Context(), change.WriteFile{Path: path, Mode: 0o600})
			if want := i+1 == cut; errors.Is(err, errFull) != want {
				t.Fatalf("writing %s: %v", path, err)
			}
		}
		again := opened(t, machine, store, run)
		for i, path := range []string{"/a", "/b", "/c"} {
			if made := again.WasCreated(change.FileTarget(path)); made != (i+1 != cut) {
				t.Errorf("line %d was cut; Made(%s) = %v", cut, path, made)
			}
		}
	}
}

func TestMadeDependsOnFileContent(t *testing.T) {
	machine, store, run := fake.New(), &journal.Memory{}, journal.RunID{Command: "init"}
	write := func(to world.World, text string) {
		if err := to.Do(t.Context(),
			change.WriteFile{Path: "/etc/x", Data: []byte(text), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
	}
	ours := func(want bool) {
		t.Helper()
		if got := opened(t, machine, store,
			run).WasCreated(change.FileTarget("/etc/x")); got != want {
			t.Errorf("Made = %v", got)
		}
	}
	w := opened(t, machine, store, run)
	write(w, "one")
	ours(true)
	write(w, "two")
	ours(true)
	write(machine, "one") // a run that was killed before its second write took effect
	ours(true)
	write(machine, "the user's")
	ours(false)
	if err := machine.Do(t.Context(), change.Remove{Path: "/etc/x"}); err != nil {
		t.Fatal(err)
	}
	ours(false)
}

// resuming notes which writes may find leftovers of an earlier one.
type resuming struct {
	world.World
	resumed []bool
}

func (w *resuming) Do(ctx context.Context, c change.Change) error {
	w.resumed = append(w.resumed, c.(change.WriteFile).RemoveTemporary)
	return w.World.Do(ctx, c)
}

func TestOnlyRecordedWritesAreResumed(t *testing.T) {
	machine, store := &resuming{World: fake.New()}, &journal.Memory{}
	for _, command := range []string{"init phase certs", "init"} {
		w := opened(t, machine, store, journal.RunID{Command: command})
		for _, path := range []string{"/etc/of-both", "/etc/of-" + command} {
			if err := w.Do(t.Context(), change.WriteFile{Path: path, Mode: 0o600}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []bool{false, false, true, false}; !slices.Equal(machine.resumed, want) {
		t.Errorf("got %v, want %v", machine.resumed, want)
	}
}

// A run that only has objects of the cluster left to make writes no target down, and still is the
// end of what an earlier run began.
func TestEndIsRecordedAfterObjectChanges(t *testing.T) {
	machine, store, run := fake.New(), &journal.Memory{}, journal.RunID{Command: "init"}
	first := opened(t, machine, store, run)
	if err := first.Do(t.Context(), change.WriteFile{Path: "/etc/x", Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	phase := opened(t, machine, store, journal.RunID{Command: "init phase certs"})
	if err := phase.Do(t.Context(), change.WriteFile{Path: "/etc/y", Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*journal.World{phase, opened(t, machine, store, run)} {
		if w.Finished {
			t.Fatal("the run counts as finished before its end")
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
	}
	if !opened(t, machine, store, run).Finished {
		t.Error("the run is not known to have come to its end")
	}
}

// A run with other details than the finished one is finished too at its end, though it changed
// only objects of the cluster.
func TestLastOfTwoFinishedRunsCounts(t *testing.T) {
	machine, store := fake.New(), &journal.Memory{}
	one, two := journal.RunID{Command: "init", Details: "1"},
		journal.RunID{Command: "init", Details: "2"}
	first := opened(t, machine, store, one)
	if err := errors.Join(first.Do(t.Context(), change.WriteFile{Path: "/etc/x", Mode: 0o600}),
		first.End()); err != nil {
		t.Fatal(err)
	}
	for _, run := range []journal.RunID{two, one, two} {
		again := opened(t, machine, store, run)
		if again.Finished {
			t.Fatalf("the run with details %s counts as finished, but the other one was the last",
				run.Details)
		}
		_, err := again.Once(t.Context(), "value",
			func() (string, error) { return "of " + run.Details, nil })
		if err := errors.Join(err, again.End()); err != nil {
			t.Fatal(err)
		}
		last := opened(t, machine, store, run)
		kept, err := last.Kept(t.Context(), "value",
			func() (string, error) { return "a new one", nil })
		if !last.Finished || kept != "of "+run.Details || err != nil {
			t.Errorf("details %s: finished: %t, kept value: %q, %v", run.Details, last.Finished,
				kept, err)
		}
	}
}

// A run that changed nothing where nothing was begun leaves no trace.
func TestNoEndWithoutChanges(t *testing.T) {
	store := &journal.Memory{}
	w := opened(t, fake.New(), store, journal.RunID{Command: "init"})
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if again := opened(t, fake.New(), store, journal.RunID{Command: "init"}); !again.First {
		t.Error("it left something in the journal")
	}
}

func opened(t *testing.T, machine world.World, store journal.Store,
	run journal.RunID) *journal.World {
	t.Helper()
	w, err := journal.Open(machine, store, run)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
