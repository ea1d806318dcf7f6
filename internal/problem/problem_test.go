package problem

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestHintsOfWrappedProblems(t *testing.T) {
	below := New("reading", errors.New("broken"), "mend it")
	above := New("", fmt.Errorf("phase x: %w",
		errors.Join(below, New("", errors.New("worse"), "replace it"))), "try again")
	if got, want := Hints(above),
		[]string{"try again", "mend it", "replace it"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	above.Alone = true
	if got, want := Hints(fmt.Errorf("at the top: %w", above)),
		[]string{"try again"}; !slices.Equal(got, want) {
		t.Errorf("alone: got %q, want %q", got, want)
	}
}
