package health

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/neterror"
)

// diagnosis keeps the most informative error of the checks of one wait. A component that fails
// goes through many states, and the last one, such as a refused connection, often says least.
type diagnosis struct {
	best    error // the most informative error of a request to the component
	rank    answerRank
	watches []*crashWatch // of the component, after those of the components that it requires
}

// answerRank orders the answers of a component by how much they say about the cause.
type answerRank int

const (
	noAnswer answerRank = iota
	connectionRefused
	unhealthy // it answers with an error
)

// addCause adds to the error of a check what this check and those before have found: how the
// containers exited, else the most informative answer. It gives up if waiting cannot help, and
// returns nil for nil.
func (d *diagnosis) addCause(ctx context.Context, r state.Reader, err error) error {
	if err == nil {
		return nil
	}
	found := unhealthy
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		found = noAnswer
	case neterror.IsConnectionRefused(err):
		found = connectionRefused
	}
	if d.best == nil || found >= d.rank {
		d.best, d.rank = err, found
	}
	cause := crashCause(ctx, r, d.watches...)
	if cause == nil && found < d.rank {
		cause = d.best
	}
	var absent []string
	for _, w := range d.watches {
		if w.absent {
			absent = append(absent, w.component)
		}
	}
	err = joinCause(cause, err)
	if len(absent) > 0 && !world.IsPermanent(err) {
		err = fmt.Errorf("%w; there is no container of %s", err, strings.Join(absent, ", "))
	}
	return err
}

// crashCause returns why the watched containers exited last, nil if none has. It gives up if a
// restart cannot help.
func crashCause(ctx context.Context, r state.Reader, watches ...*crashWatch) error {
	var causes error
	for _, w := range watches {
		cause := w.findCause(ctx, r)
		switch {
		case world.IsPermanent(cause):
			return cause
		case causes == nil:
			causes = cause
		case cause != nil:
			causes = fmt.Errorf("%w; %w", causes, cause)
		}
	}
	return causes
}

// joinCause puts the cause, if there is one, before the error of the last check.
func joinCause(cause, last error) error {
	switch {
	case cause == nil:
		return last
	case world.IsPermanent(cause):
		return cause
	}
	return fmt.Errorf("%w; at the last check: %w", cause, last)
}
