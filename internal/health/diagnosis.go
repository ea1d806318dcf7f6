package health

import (
	"context"
	"errors"
	"fmt"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// diagnosis keeps the most telling of what the checks of one wait have found. A component that fails goes
// through many states, and the one of the last check, such as a refused connection, often says least.
type diagnosis struct {
	answer  error // the most telling of what came of asking the component
	telling telling
	watches []*crashWatch // of the component, after those of what it requires
}

// telling orders the answers of a component by how much they say of the cause.
type telling int

const (
	noAnswer telling = iota
	connectionRefused
	unhealthy // it answers, and says what is wrong
)

func tellingOf(err error) telling {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return noAnswer
	case utilnet.IsConnectionRefused(err):
		return connectionRefused
	}
	return unhealthy
}

// explain returns the cause of a check that failed with err, as far as this check and those before have found
// it: how the containers ended, else the most telling answer, and with either what this check found. It gives
// up where waiting cannot help, and returns nil for nil.
func (d *diagnosis) explain(ctx context.Context, r state.Reader, err error) error {
	if err == nil {
		return nil
	}
	found := tellingOf(err)
	if d.answer == nil || found >= d.telling {
		d.answer, d.telling = err, found
	}
	cause := crashCause(ctx, r, d.watches...)
	if cause == nil && found < d.telling {
		cause = d.answer
	}
	var absent []string
	for _, w := range d.watches {
		if w.absent {
			absent = append(absent, w.component)
		}
	}
	err = withCause(cause, err)
	if len(absent) > 0 && !world.Hopeless(err) {
		err = fmt.Errorf("%w; there is no container of %s", err, strings.Join(absent, ", "))
	}
	return err
}

// crashCause returns the causes for which the watched containers ended last, nil if there are none. It gives
// up where another start cannot help.
func crashCause(ctx context.Context, r state.Reader, watches ...*crashWatch) error {
	var causes error
	for _, w := range watches {
		cause := w.look(ctx, r)
		switch {
		case world.Hopeless(cause):
			return cause
		case causes == nil:
			causes = cause
		case cause != nil:
			causes = fmt.Errorf("%w; %w", causes, cause)
		}
	}
	return causes
}

// withCause puts the cause, if there is one, before what the last check of a wait has found.
func withCause(cause, last error) error {
	switch {
	case cause == nil:
		return last
	case world.Hopeless(cause):
		return cause
	}
	return fmt.Errorf("%w; at the last check: %w", cause, last)
}
