// Package preflight holds the questions asked about a machine before anything on it is
// changed, and which command asks which. It only reads; names, order and severity of the
// checks are public, since --ignore-preflight-errors and scripts rely on them.
package preflight

import (
	"context"
	"fmt"
	"sync"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Check is one read-only question about this machine or what it will talk to.
type Check struct {
	Name string // public name, as --ignore-preflight-errors takes it; several checks may share one
	Run  func(ctx context.Context, r state.Reader, rep *Report)
}

// Run asks all checks side by side and returns what they found in the order of the list.
// Errors of ignored checks count as warnings.
func Run(ctx context.Context, r state.Reader, checks []Check, ignore node.Ignore) Result {
	reports := make([]*Report, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		reports[i] = NewReport(c.Name)
		wg.Go(func() { c.Run(ctx, r, reports[i]) })
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{stopped: fmt.Errorf("stopped during the preflight checks: %w", err)}
	}
	var all Result
	for _, rep := range reports {
		all.Findings = append(all.Findings, rep.Result(ignore).Findings...)
	}
	return all
}

// fact is something about the machine that may cost something to find out.
type fact[T any] func(ctx context.Context, r state.Reader) (T, error)

// once is the same fact, found out at most once, so that checks that share it agree.
func (f fact[T]) once() fact[T] {
	var (
		done  sync.Once
		value T
		err   error
	)
	return func(ctx context.Context, r state.Reader) (T, error) {
		done.Do(func() { value, err = f(ctx, r) })
		return value, err
	}
}
