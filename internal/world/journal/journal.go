// Package journal is a world that records: the run log has each change before it happens, so that
// a re-run of a command that was killed resumes it; kept values are what a run generated and a
// re-run needs, such as tokens; the undo list has the inverse of changes that may have to be
// undone. The run log holds no secret; the kept values are a file beside it that only root can
// read.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Store keeps the journal's files.
type Store interface {
	// Load reads a whole file; the error satisfies errors.Is(err, fs.ErrNotExist) if there is
	// none.
	Load(name string) ([]byte, error)
	// Append adds to a file of mode 0600; when it returns the data has reached the disk.
	Append(name string, data []byte) error
	// Replace writes a whole file: whatever happens, it holds the old or the new data.
	Replace(name string, data []byte) error
	// Clear removes everything.
	Clear() error
}

// The files of a journal.
const (
	entries = "journal"
	values  = "values"
)

// World records what it does.
type World struct {
	world.World
	Earlier
	store Store
	run   RunID

	mu   sync.Mutex // of all below
	log  runLog
	kept map[string]string // values that this run or an earlier one generated, by name
	undo undoList
}

// Open reads what earlier runs left and resumes them if they are the same run.
func Open(real world.World, store Store, run RunID) (*World, error) {
	log, err := openLog(store, run, real.Now)
	if err != nil {
		return nil, err
	}
	w := &World{World: real, Earlier: log.earlier, store: store, run: run, log: log,
		kept: map[string]string{}}
	lines, err := load[value](store, values)
	for _, v := range lines {
		// values of a superseded run are not used again
		if v.Run.same(run) && !log.superseded {
			w.kept[v.Name] = v.Value
		}
	}
	return w, err
}

// load reads JSON lines. A line that cannot be read was cut off by a kill. Skipping it is safe:
// what is not in the journal counts as created by others.
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

func encodeLine(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and times always encode
	}
	return append(data, '\n')
}

// Do records the change and carries it out.
func (w *World) Do(ctx context.Context, c change.Change) error {
	if err := w.record(ctx, c); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	isRepeated := func(f change.WriteFile) bool { return w.log.named[f.Target()] }
	switch repeated := c.(type) {
	case change.WriteFile:
		repeated.RemoveTemporary = repeated.RemoveTemporary || isRepeated(repeated)
		c = repeated
	case change.WriteKeyPair:
		repeated.Key.RemoveTemporary = isRepeated(repeated.Key)
		repeated.Cert.RemoveTemporary = isRepeated(repeated.Cert)
		c = repeated
	}
	return w.World.Do(ctx, c)
}

func (w *World) record(ctx context.Context, c change.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.undo.marks > 0 {
		if err := w.addInverse(ctx, c); err != nil {
			return err
		}
	}
	// Objects of the cluster are looked up again: only for what is on this machine must a re-run
	// know who created it.
	if strings.HasPrefix(c.Target(), "object:") {
		return nil
	}
	e := entry{Target: c.Target(), What: c.String()}
	switch c := c.(type) {
	case change.WriteFile:
		e.Sum = sha256Hex(c.Data)
	case change.WriteKeyPair:
		e.Sum = sha256Hex(c.Cert.Data)
		key := entry{Target: c.Key.Target(), What: c.String(), Sum: sha256Hex(c.Key.Data)}
		if err := w.log.append(key); err != nil {
			return err
		}
	}
	return w.log.append(e)
}

// End records that the run finished without the skipped phases, and compacts the run log.
func (w *World) End(skipped ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log.fresh && !w.log.unended && !w.log.superseded {
		return nil // nothing was changed: the log is as it should be
	}
	if err := w.log.append(entry{End: true, Skip: skipped}); err != nil {
		return err
	}
	_ = compactLog(w.store) // a long log is as good
	return nil
}

// Once returns the value that an earlier run of the same name generated, or generates and keeps
// it.
func (w *World) Once(_ context.Context, name string,
	generate func() (string, error)) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.kept[name]; ok {
		return v, nil
	}
	v, err := generate()
	if err != nil {
		return "", err
	}
	w.kept[name] = v
	return v, w.store.Append(values,
		append([]byte{'\n'}, encodeLine(value{Run: w.run, Name: name, Value: v})...))
}

// Kept is Once for a run that must not write: a value that no earlier run kept is generated and
// not kept.
func (w *World) Kept(_ context.Context, name string,
	generate func() (string, error)) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.kept[name]; ok {
		return v, nil
	}
	return generate()
}

// Forget removes the run log and the kept values.
func (w *World) Forget() error { return w.store.Clear() }
