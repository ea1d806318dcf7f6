// Package preflight has the checks of a machine that run before anything on it is changed, and
// which command runs which. It changes no file: to check the kernel, SystemVerification may load a
// module, and create and remove an empty cgroup; ports are opened and closed. Names, order and severity of the checks are public,
// since --ignore-preflight-errors and scripts rely on them.
package preflight

import (
	"context"
	"fmt"
	"sync"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Check is one read-only check of this machine or of a server that it will use.
type Check struct {
	Name string // public name, as --ignore-preflight-errors takes it; several checks may share one
	Why  string // what goes wrong in a cluster if the check fails; for the doctor
	Run  func(ctx context.Context, r state.Reader, rep *Report)
}

// Run runs all checks in parallel and returns their findings in the order of the list.
// Errors of ignored checks count as warnings.
func Run(ctx context.Context, r state.Reader, checks []Check, ignore node.IgnoredChecks) Result {
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

// Query finds out something about the machine, which may take time.
type Query[T any] func(ctx context.Context, r state.Reader) (T, error)

// Cached returns a query that runs once and then returns the same result, so that checks that
// share it agree.
func (q Query[T]) Cached() Query[T] {
	var (
		done  sync.Once
		value T
		err   error
	)
	return func(ctx context.Context, r state.Reader) (T, error) {
		done.Do(func() { value, err = q(ctx, r) })
		return value, err
	}
}
