// Package journal is a world that remembers: it writes down each change before it
// happens, so that a run that was killed can be gone on with by giving the same command again,
// and it keeps the inverse of changes that may have to be put back. The journal holds no secret;
// values that an unfinished run must find again lie beside it, readable by root alone.
package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Store keeps the journal's files.
type Store interface {
	// Load reads a whole file; the error satisfies errors.Is(err, fs.ErrNotExist) if there is none.
	Load(name string) ([]byte, error)
	// Append adds to a file of mode 0600; when it returns the data has reached the disk.
	Append(name string, data []byte) error
	// Replace writes a file anew as a whole: whatever happens, it holds the old or the new data.
	Replace(name string, data []byte) error
	// Clear removes everything.
	Clear() error
}

// The files of a journal.
const (
	entries = "journal"
	values  = "values"
)

// World writes down what it does.
type World struct {
	world.World
	store Store
	run   Run

	mu     sync.Mutex
	fresh  bool // the next line must begin the run: nothing, or not all, was written yet
	made   map[string]sums
	named  map[string]bool   // targets of all runs: what was being written when one was killed
	kept   map[string]string // values of Once
	keep   int               // phases that want their changes to be undoable
	undo   []inverse
	others string // command of an unfinished run that is not this one
	first  bool   // the journal was empty
	// finished: a run of the same name and details came to its end, and nothing was changed since
	finished bool
	// unended: the last run of the same name did not come to its end
	unended bool
	skipped []string // phases that the finished run left out
	// superseded: the last run of the same name that came to its end had other details
	superseded bool
}

// Run names a command and what it is to do. A run goes on with an unfinished one of the same command
// and intent, and with a finished one if the details are the same too.
type Run struct {
	Command string `json:"command"`
	Intent  string `json:"intent"`            // digest of what is settled once a run has begun: names, addresses, certificates
	Details string `json:"details,omitempty"` // digest of everything else that shows in the outcome
}

// same tells whether an unfinished run is one to go on with.
func (r Run) same(other Run) bool { return r.Command == other.Command && r.Intent == other.Intent }

// entry is one line of the journal.
type entry struct {
	Time   time.Time `json:"time"`
	Run    *Run      `json:"run,omitempty"`    // a run begins
	Target string    `json:"target,omitempty"` // a change is about to happen
	Sum    string    `json:"sum,omitempty"`    // of a file: digest of the bytes that are about to be written
	What   string    `json:"what,omitempty"`
	Undone string    `json:"undone,omitempty"` // a target is about to be put back and counts no longer as made
	End    bool      `json:"end,omitempty"`    // the run ended well
	Skip   []string  `json:"skip,omitempty"`   // phases that a run left out which ended well
}

type value struct {
	Run   Run    `json:"run"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Open reads what earlier runs left and goes on with them if they are of the same name.
func Open(real world.World, store Store, run Run) (*World, error) {
	w := &World{World: real, store: store, run: run, fresh: true,
		made: map[string]sums{}, named: map[string]bool{}, kept: map[string]string{}}
	lines, err := load[entry](store, entries)
	if err != nil {
		return nil, err
	}
	w.first = len(lines) == 0
	var current Run
	for _, e := range lines {
		w.named[e.Target] = true
		if e.Run != nil {
			current = *e.Run
			w.others = ""
		}
		if current.same(run) {
			w.unended = !e.End
		}
		switch {
		case !current.same(run):
			w.others = current.Command
			if e.End {
				w.others = ""
			}
		case e.End && current.Details != run.Details:
			w.superseded, w.finished = true, false
			clear(w.made)
		case e.End:
			w.superseded, w.finished, w.skipped = false, true, e.Skip
		case e.Target != "":
			w.made[e.Target] = w.made[e.Target].with(e.Sum)
			w.finished = false
		case e.Undone != "":
			delete(w.made, e.Undone)
		}
	}
	remembered, err := load[value](store, values)
	for _, v := range remembered {
		if v.Run.same(run) && !w.superseded {
			w.kept[v.Name] = v.Value
		}
	}
	return w, err
}

// load reads JSON lines. A line that cannot be read was cut off by a kill; passing over it is
// safe, since whatever is not in the journal counts as somebody else's.
func load[T any](store Store, name string) ([]T, error) {
	data, err := store.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	var all []T
	for line := range strings.Lines(string(data)) {
		var one T
		if json.Unmarshal([]byte(line), &one) == nil {
			all = append(all, one)
		}
	}
	return all, nil
}

// First tells whether no earlier run, of whatever name, is in the journal.
func (w *World) First() bool { return w.first }

// Finished tells whether a run of the same name and details came to its end and was not begun again.
func (w *World) Finished() bool { return w.finished }

// Skipped are the phases that the finished run was asked to leave out.
func (w *World) Skipped() []string { return w.skipped }

// Unfinished is the command of another run that was not brought to its end; empty if there is none.
func (w *World) Unfinished() string { return w.others }

// Made tells whether an earlier run of the same name made the target. A file must still hold what was written.
func (w *World) Made(target string) bool {
	w.mu.Lock()
	known, ok := w.made[target]
	w.mu.Unlock()
	if !ok || len(known) == 0 {
		return ok
	}
	now, err := w.ReadFile(context.Background(), strings.TrimPrefix(target, change.FileTarget("")))
	return err == nil && slices.Contains(known, sum(now))
}

// Recorded reports whether an earlier run of the same name was about to make the target, whatever has become of it since.
func (w *World) Recorded(target string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.made[target]
	return ok
}

// sums are digests of what a file was made to hold, one after the other; none for what is no file.
type sums []string

func (s sums) with(one string) sums {
	if one == "" {
		return s
	}
	return append(s, one)
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// Do writes the change down and carries it out.
func (w *World) Do(ctx context.Context, c change.Change) error {
	if err := w.record(ctx, c); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if file, ok := c.(change.WriteFile); ok && w.named[c.Target()] {
		file.Resumed = true
		c = file
	}
	return w.World.Do(ctx, c)
}

func (w *World) record(ctx context.Context, c change.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keep > 0 {
		if err := w.remember(ctx, c); err != nil {
			return err
		}
	}
	// Objects of the cluster are found again by asking for them: only what is on this
	// machine must be known to be ours.
	if strings.HasPrefix(c.Target(), "object:") {
		return nil
	}
	e := entry{Target: c.Target(), What: c.String()}
	if file, ok := c.(change.WriteFile); ok {
		e.Sum = sum(file.Data)
	}
	return w.line(e)
}

func (w *World) line(e entry) error {
	e.Time = w.Now().UTC()
	var text []byte
	if w.fresh {
		text = append([]byte{'\n'}, encode(entry{Time: e.Time, Run: &w.run})...) // a kill may have cut the line before
	}
	err := w.store.Append(entries, append(text, encode(e)...))
	w.fresh = err != nil // a full disk may have cut this line, too
	return err
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and times always encode
	}
	return append(data, '\n')
}

// End notes that the run came to its end without the skipped phases, and leaves out of the journal what it has said again.
func (w *World) End(skipped ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fresh && !w.unended && !w.superseded {
		return nil // nothing was changed: the journal is as it should be
	}
	if err := w.line(entry{End: true, Skip: skipped}); err != nil {
		return err
	}
	_ = w.tidy() // a journal that stays long is as good
	return nil
}

// Once returns the value an earlier run of the same name made, or makes and keeps it.
func (w *World) Once(_ context.Context, name string, make func() (string, error)) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.kept[name]; ok {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return "", err
	}
	w.kept[name] = v
	return v, w.store.Append(values, append([]byte{'\n'}, encode(value{Run: w.run, Name: name, Value: v})...))
}

// Kept is Once for a run that must not write: a value that no earlier run kept is made, and not kept.
func (w *World) Kept(_ context.Context, name string, make func() (string, error)) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.kept[name]; ok {
		return v, nil
	}
	return make()
}

// Forget removes the journal and the values beside it.
func (w *World) Forget() error { return w.store.Clear() }
