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
)

// inverse is a change that was made and what puts it back; put is nil if nothing can.
type inverse struct {
	of, put change.Change
	ours    bool // an earlier run made the target already: put back, it is still ours
}

// remember keeps what puts the change back, and with it the folders that come to be on the way.
func (w *World) remember(ctx context.Context, c change.Change) error {
	above, err := w.foldersAbove(ctx, c)
	if err != nil {
		return err
	}
	for _, each := range append(above, c) {
		put, err := each.Inverse(ctx, w.World)
		if err != nil && !errors.Is(err, change.ErrOneWay) {
			return err
		}
		_, ours := w.made[each.Target()]
		w.undo = append(w.undo, inverse{of: each, put: put, ours: ours})
	}
	return nil
}

// foldersAbove are the folders that a new file or folder brings with it, outermost first.
func (w *World) foldersAbove(ctx context.Context, c change.Change) ([]change.Change, error) {
	var name string
	switch c := c.(type) {
	case change.WriteFile:
		name = c.Path
	case change.MakeDir:
		name = c.Path
	}
	var above []change.Change
	for dir := path.Dir(name); dir != path.Dir(dir); dir = path.Dir(dir) {
		if _, err := w.World.Stat(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
			return above, err
		}
		above = slices.Insert(above, 0, change.Change(change.MakeDir{Path: dir}))
	}
	return above, nil
}

// Mark begins to keep inverses and returns the place to undo to.
func (w *World) Mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep++
	return len(w.undo)
}

// Release ends what the last Mark began: what was changed since is there to stay.
func (w *World) Release(mark int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep--
	w.undo = w.undo[:mark]
}

// Undo puts back what was changed since mark, newest first, and tells each step. What cannot be
// put back is told with change.ErrOneWay and does not end the undoing.
func (w *World) Undo(ctx context.Context, mark int, told func(of change.Change, err error)) error {
	w.mu.Lock()
	todo := withoutDetours(w.undo[mark:])
	w.mu.Unlock()
	var errs []error
	for _, i := range slices.Backward(todo) {
		needed, err := w.putBack(ctx, i)
		if needed || err != nil {
			told(i.of, err)
		}
		if err != nil && !errors.Is(err, change.ErrOneWay) {
			errs = append(errs, fmt.Errorf("undoing %q: %w", i.of, err))
		}
	}
	return errors.Join(errs...)
}

// withoutDetours leaves out what would write a file that is written once more later on: of a file
// that was only written, and several times, the oldest inverse alone is left. The kubelet acts on
// each version of a manifest that it sees.
func withoutDetours(all []inverse) []inverse {
	count, onlyWritten := map[string]int{}, map[string]bool{}
	for _, i := range all {
		target := i.of.Target()
		_, write := i.of.(change.WriteFile)
		onlyWritten[target] = write && i.put != nil && (count[target] == 0 || onlyWritten[target])
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

// putBack tells whether there was anything to put back.
func (w *World) putBack(ctx context.Context, i inverse) (needed bool, err error) {
	if err := w.disown(i); err != nil {
		return true, fmt.Errorf("writing the journal: %w", err)
	}
	if i.put == nil {
		return true, change.ErrOneWay
	}
	if done, err := i.put.Done(ctx, w.World); err == nil && done {
		return false, nil
	}
	return true, w.World.Do(ctx, i.put)
}

// disown notes that what will be there again is not of our making.
func (w *World) disown(i inverse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.ours || i.put == nil || strings.HasPrefix(i.of.Target(), "object:") {
		return nil
	}
	return w.line(entry{Undone: i.of.Target()})
}
