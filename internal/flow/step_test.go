package flow_test

import (
	"context"
	"errors"
	"testing"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
)

func TestStepIsDoneOnceBeforeThePhasesThatNeedIt(t *testing.T) {
	failure := errors.New("no API server")
	for name, c := range map[string]struct {
		sel   flow.Selection
		err   error
		never bool // the condition of the step
		times int
	}{
		"whole":          {flow.Selection{}, nil, false, 1},
		"first skipped":  {flow.Selection{Skip: []string{"a"}}, nil, false, 1},
		"all skipped":    {flow.Selection{Skip: []string{"a", "b"}}, nil, false, 0},
		"alone":          {flow.Selection{Only: "b"}, nil, false, 1},
		"alone, a child": {flow.Selection{Only: "b/c"}, nil, false, 1},
		"another alone":  {flow.Selection{Only: "d"}, nil, false, 0},
		"not needed":     {flow.Selection{}, nil, true, 0},
		"failed":         {flow.Selection{}, failure, false, 1},
	} {
		times := 0
		step := flow.Step{Name: "bind", Run: func(context.Context, *flow.Env) error { times++; return c.err }}
		step = step.If(func(*node.Node) bool { return !c.never })
		a, b := phase("a"), phase("b", phase("c"))
		a.Before, b.Before = []flow.Step{step}, []flow.Step{step}
		e, _ := env(fake.New())
		phases := []flow.Phase{{Parallel: true, Phases: []flow.Phase{a, b}}, phase("d")}
		if err := flow.Run(t.Context(), e, phases, c.sel); !errors.Is(err, c.err) || times != c.times {
			t.Errorf("%s: the step was done %d times, want %d: %v", name, times, c.times, err)
		}
	}
}
