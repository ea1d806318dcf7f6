package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// Every phase, change and wait that begins has an end, with the time at which it began; a change
// also says what it did to its target.
func TestEndsOfPhasesChangesAndWaits(t *testing.T) {
	file := change.WriteFile{Path: "/a", Data: []byte("1"), Mode: 0o600}
	again := file
	again.Data = []byte("2")
	never := world.Condition{Name: "the moon", Timeout: time.Second,
		Check: func(context.Context, state.Reader) error {
			return world.Permanent(errors.New("it is day"))
		}}
	machine := fake.New()
	var got []string
	e := engine.New(engine.Env{World: &fault.World{World: machine, At: 2},
		Emit: func(e engine.Event) {
			if e.Start.After(e.Time) {
				t.Errorf("%s began at %s and ended at %s", e.Kind, e.Start, e.Time)
			}
			got = append(got, fmt.Sprintf("%s %s %v %s%s", e.Kind, e.Phase, !e.Start.IsZero(),
				e.Effect, e.Subject))
		}})
	phases := []engine.Phase{{Name: "a", Phases: []engine.Phase{{Name: "b",
		Run: func(ctx context.Context, e *engine.Env) error {
			err := e.Do(ctx, file, again, again)
			return errors.Join(err, e.Await(ctx, never), e.Do(ctx, file))
		}}}}}
	err := engine.Run(t.Context(), e, phases, engine.Selection{})
	var failed *engine.PhaseError
	if !errors.As(err, &failed) || failed.Phase != "a/b" {
		t.Errorf("the error names no phase: %v", err)
	}
	want := []string{"phaseStarted a false ", "phaseStarted a/b false ",
		"changeStarted a/b false ", "changeDone a/b true created",
		"changeStarted a/b false ", "changeDone a/b true changed",
		"changeNotNeeded a/b true ", "waitStarted a/b false the moon",
		"waitFailed a/b true the moon", "changeStarted a/b false ", "changeFailed a/b true ",
		"phaseFailed a/b true ",
		"phaseFailed a true "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
