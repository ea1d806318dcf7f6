package journal

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/change"
)

// inverse is a change that was made and what puts it back; put is nil if nothing can.
type inverse struct{ of, put change.Change }

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
	todo := w.undo[mark:]
	w.mu.Unlock()
	var errs []error
	for i := len(todo) - 1; i >= 0; i-- {
		err := w.putBack(ctx, todo[i])
		told(todo[i].of, err)
		if err != nil && !errors.Is(err, change.ErrOneWay) {
			errs = append(errs, fmt.Errorf("undoing %q: %w", todo[i].of, err))
		}
	}
	return errors.Join(errs...)
}

func (w *World) putBack(ctx context.Context, i inverse) error {
	if i.put == nil {
		return change.ErrOneWay
	}
	if done, err := i.put.Done(ctx, w.World); err == nil && done {
		return nil
	}
	return w.World.Do(ctx, i.put)
}
