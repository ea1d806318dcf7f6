package problem

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestHintsOfWrappedProblems(t *testing.T) {
	below := During("reading", errors.New("broken"), "fix it")
	above := New(fmt.Errorf("phase x: %w",
		errors.Join(below, New(errors.New("worse"), "replace it"))), "try again")
	if got, want := Hints(above),
		[]string{"try again", "fix it", "replace it"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	above.Alone = true
	if got, want := Hints(fmt.Errorf("at the top: %w", above)),
		[]string{"try again"}; !slices.Equal(got, want) {
		t.Errorf("alone: got %q, want %q", got, want)
	}
}

func TestExitCode(t *testing.T) {
	soon := &Problem{Err: errors.New("expires"), Code: 2}
	for err, want := range map[error]int{
		errors.New("broken"):      1,
		New(errors.New("broken")): 1,
		soon:                      2,
		fmt.Errorf("phase x: %w", During("checking", soon)): 2,
		errors.Join(errors.New("closing"), soon):            2,
	} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestIsUndone(t *testing.T) {
	undone := fmt.Errorf("phase: %w", New(&Problem{Err: errors.New("a"), Undone: true}))
	if !IsUndone(undone) || IsUndone(New(errors.New("a"))) || IsUndone(nil) {
		t.Errorf("%t, %t", IsUndone(undone), IsUndone(nil))
	}
}
