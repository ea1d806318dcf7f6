package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// undoList has the inverses of changes that may have to be undone.
type undoList struct {
	marks    int // phases that want their changes to be undoable
	inverses []inverse
}

// inverse is a change that was made and the change that undoes it, nil if none can.
type inverse struct {
	of, undo change.Change
	ours     bool // an earlier run created the target already: undone, it is still ours
}

// addInverse adds what undoes the change, and the directories that it creates. What it reads of
// the API server is retried until the time limit of the change.
func (w *World) addInverse(ctx context.Context, c change.Change) error {
	if limit := world.TimeLeft(ctx, 0); limit > 0 {
		ctx = world.WithRetry(ctx, limit)
	}
	// the directories that are created with a new file or directory, outermost first
	var above []change.Change
	var name string
	switch c := c.(type) {
	case change.WriteFile:
		name = c.Path
	case change.MakeDir:
		name = c.Path
	}
	for dir := path.Dir(name); dir != path.Dir(dir); dir = path.Dir(dir) {
		_, err := w.World.Stat(ctx, dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		above = slices.Insert(above, 0, change.Change(change.MakeDir{Path: dir}))
	}
	for _, each := range append(above, c) {
		undo, err := each.Inverse(ctx, w.World)
		if err != nil && !errors.Is(err, change.ErrIrreversible) {
			return err
		}
		_, ours := w.log.made[each.Target()]
		w.undo.inverses = append(w.undo.inverses, inverse{of: each, undo: undo, ours: ours})
	}
	return nil
}

// Mark begins to collect inverses and returns the position to undo to.
func (w *World) Mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undo.marks++
	return len(w.undo.inverses)
}

// Release ends what the last Mark began: changes since then stay, unless a mark before it is still
// to be undone.
func (w *World) Release(mark int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undo.marks--
	if w.undo.marks == 0 {
		w.undo.inverses = w.undo.inverses[:mark]
	}
}

// Undo undoes the changes since mark, newest first, and reports each step. What cannot be undone
// is reported with change.ErrIrreversible and does not end the undoing. The end of ctx ends
// requests to the API server and etcd; this machine is restored all the same.
func (w *World) Undo(ctx context.Context, mark int, told func(of change.Change, err error)) error {
	w.mu.Lock()
	todo := withoutIntermediateWrites(w.undo.inverses[mark:])
	w.mu.Unlock()
	var errs []error
	for _, i := range slices.Backward(todo) {
		needed, err := w.undoOne(ctx, i)
		if needed || err != nil {
			told(i.of, err)
		}
		if err != nil && !errors.Is(err, change.ErrIrreversible) {
			errs = append(errs, fmt.Errorf("undoing %q: %w", i.of, err))
		}
	}
	return errors.Join(errs...)
}

// withoutIntermediateWrites returns the inverses without those whose file is written again by an
// older one: of a file that was only written, and several times, the oldest inverse alone is left.
// The kubelet acts on each version of a manifest that it sees.
func withoutIntermediateWrites(all []inverse) []inverse {
	count, onlyWritten := map[string]int{}, map[string]bool{}
	for _, i := range all {
		target := i.of.Target()
		_, isWrite := i.of.(change.WriteFile)
		onlyWritten[target] = isWrite && i.undo != nil &&
			(count[target] == 0 || onlyWritten[target])
		count[target]++
	}
	var left []inverse
	seen := map[string]bool{}
	for _, i := range all { // oldest first
		target := i.of.Target()
		if !onlyWritten[target] || !seen[target] {
			left = append(left, i)
		}
		seen[target] = true
	}
	return left
}

// undoOne reports whether there was anything to undo. It records that this run no longer counts as
// the creator of the target.
func (w *World) undoOne(ctx context.Context, i inverse) (needed bool, err error) {
	if i.undo == nil {
		return true, change.ErrIrreversible
	}
	if !i.ours && !strings.HasPrefix(i.of.Target(), "object:") {
		w.mu.Lock()
		err := w.log.append(entry{Undone: i.of.Target()})
		w.mu.Unlock()
		if err != nil {
			return true, fmt.Errorf("writing the journal: %w", err)
		}
	}
	if kind, _, _ := strings.Cut(i.of.Target(), ":"); kind != "object" && kind != "member" {
		ctx = context.WithoutCancel(ctx)
	}
	if done, err := i.undo.Done(ctx, w.World); err == nil && done {
		return false, nil
	}
	return true, w.World.Do(ctx, i.undo)
}
