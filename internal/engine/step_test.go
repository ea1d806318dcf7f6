package engine_test

import (
	"context"
	"errors"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
)

func TestStepIsDoneOnceBeforeThePhasesThatNeedIt(t *testing.T) {
	failure := errors.New("no API server")
	for name, c := range map[string]struct {
		sel   engine.Selection
		err   error
		never bool // the condition of the step
		times int
	}{
		"whole":          {engine.Selection{}, nil, false, 1},
		"first skipped":  {engine.Selection{Skip: []string{"a"}}, nil, false, 1},
		"all skipped":    {engine.Selection{Skip: []string{"a", "b"}}, nil, false, 0},
		"alone":          {engine.Selection{Only: "b"}, nil, false, 1},
		"alone, a child": {engine.Selection{Only: "b/c"}, nil, false, 1},
		"another alone":  {engine.Selection{Only: "d"}, nil, false, 0},
		"not needed":     {engine.Selection{}, nil, true, 0},
		"failed":         {engine.Selection{}, failure, false, 1},
	} {
		times := 0
		step := engine.Step{Name: "bind",
			Run: func(context.Context, *engine.Env) error { times++; return c.err }}
		step = step.If(func(*node.Node) bool { return !c.never })
		a, b := phase("a"), phase("b", phase("c"))
		a.Before, b.Before = []engine.Step{step}, []engine.Step{step}
		e, _ := env(fake.New())
		phases := []engine.Phase{{Parallel: true, Phases: []engine.Phase{a, b}}, phase("d")}
		if err := engine.Run(t.Context(), e, phases, c.sel); !errors.Is(err, c.err) ||
			times != c.times {
			t.Errorf("%s: the step was done %d times, want %d: %v", name, times, c.times, err)
		}
	}
}
