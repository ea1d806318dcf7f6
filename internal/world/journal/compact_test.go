package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
)

// endless is never compacted.
type endless struct{ *journal.Memory }

func (endless) Replace(string, []byte) error { return nil }

// runs are few, so that they come again: two commands, with two intents and two details each.
func runs() (all []journal.RunID) {
	for i := range 8 {
		all = append(all, journal.RunID{Command: fmt.Sprint("init phase ", i&1),
			Intent: fmt.Sprint(i >> 1 & 1), Details: fmt.Sprint(i >> 2)})
	}
	return all
}

func target(i int) change.SetService { return change.SetService{Name: fmt.Sprint("service", i)} }

// conclusions are all that a run of that name reads out of a journal.
func conclusions(t *testing.T, store journal.Store, run journal.RunID) string {
	t.Helper()
	w := opened(t, fake.New(), store, run)
	text := fmt.Sprint(w.First, w.Finished, w.Unfinished)
	for i := range 4 {
		text += fmt.Sprint(" ", w.WasCreated(target(i).Target()))
	}
	value, err := w.Once(t.Context(), "value",
		func() (string, error) { return "", errors.New("none is kept") })
	return fmt.Sprint(text, " ", value, " ", err)
}

// Whatever runs there were, killed or not, a journal that was tidied up tells every later run the
// same as one that was not.
func TestCompactedLogMeansTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		short, long := &journal.Memory{}, endless{&journal.Memory{}}
		for step := range 30 {
			run := runs()[random.IntN(8)]
			own, other := opened(t, fake.New(), short, run), opened(t, fake.New(), long, run)
			for range random.IntN(4) {
				c := target(random.IntN(4))
				if err := errors.Join(own.Do(t.Context(), c),
					other.Do(t.Context(), c)); err != nil {
					t.Fatal(err)
				}
			}
			if random.IntN(4) == 0 {
				text := func() (string, error) { return fmt.Sprint(step), nil }
				_, err := own.Once(t.Context(), "value", text)
				if _, err2 := other.Once(t.Context(), "value", text); err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
			}
			if random.IntN(3) > 0 { // else it was killed
				if err := errors.Join(own.End(), other.End()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, run := range runs() {
			if got, want := conclusions(t, short, run), conclusions(t, long, run); got != want {
				t.Fatalf("round %d, %v: a tidy journal says %q, a whole one %q", round, run, got,
					want)
			}
		}
	}
}

func TestLogDoesNotGrowWithReRuns(t *testing.T) {
	store, machine := &journal.Memory{}, fake.New()
	size := func() int {
		data, err := store.Load("journal")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("\n"))
	}
	whole := opened(t, machine, store, journal.RunID{Command: "init", Details: "1"})
	// it is killed
	if err := errors.Join(whole.Do(t.Context(), target(0)),
		whole.Do(t.Context(), target(1))); err != nil {
		t.Fatal(err)
	}
	first := 0
	for i := range 100 {
		w := opened(t, machine, store, journal.RunID{Command: "init phase x"})
		file := change.WriteFile{Path: "/etc/x", Data: fmt.Append(nil, i), Mode: 0o600}
		if err := errors.Join(w.Do(t.Context(), target(1)), w.Do(t.Context(), file),
			w.End()); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = size()
		}
		if !opened(t, machine, store,
			journal.RunID{Command: "init phase x"}).WasCreated(file.Target()) {
			t.Fatal("what the last run wrote is not ours")
		}
	}
	if size() > first {
		t.Errorf("after the first run there were %d lines, after the last %d", first, size())
	}
	if again := opened(t, machine, store,
		journal.RunID{Command: "init", Details: "1"}); !again.WasCreated(target(0).Target()) ||
		!again.WasCreated(target(1).Target()) {
		t.Error("what was killed before is forgotten")
	}
}

// A journal that cannot be tidied up is still one that ended well.
func TestEndSurvivesFailedCompaction(t *testing.T) {
	store, run := &journal.Memory{}, journal.RunID{Command: "init"}
	for range 2 {
		w := opened(t, fake.New(), stuck{store}, run)
		if err := errors.Join(w.Do(t.Context(), target(0)), w.End()); err != nil {
			t.Error(err)
		}
	}
	if !opened(t, fake.New(), store, run).Finished {
		t.Error("its end is lost")
	}
}

type stuck struct{ *journal.Memory }

func (stuck) Replace(string, []byte) error { return errFull }
