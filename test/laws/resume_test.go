package laws

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/world/fault"
)

// A run that was killed is gone on with by the same command, an hour later and with other
// random values: the machine comes out the same, each change takes effect exactly once, a look ahead tells just that, and
// the journal knows that there is nothing left to do.
func TestRunResumesAtEveryCrashPoint(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		whole := s.newRun(s.machine(t))
		out := whole.mustSucceed(t)
		want, changes := describeMachine(t, whole.machine, out.key), sortedLines(describeChanges(out.did))
		forEachFault(len(out.did), func(at *fault.World) {
			t.Run(faultName(at), func(t *testing.T) {
				t.Parallel()
				at.Crash = true
				r := s.newRun(s.machine(t))
				r.fault = at
				first := r.execute(t)
				if !first.crashed {
					t.Fatalf("the run did not get that far: %v", first.err)
				}
				second := checkPreview(t, r.rerun())
				if diff := diffLines(want, describeMachine(t, r.machine, second.key)); diff != "" {
					t.Errorf("the machine is not as after one run (-want +got):\n%s", diff)
				}
				if diff := diffLines(changes, sortedLines(append(describeChanges(first.did), describeChanges(second.did)...))); diff != "" {
					t.Errorf("both runs together did not do each thing once (-want +got):\n%s", diff)
				}
				if !r.isFinished(t) {
					t.Error("the journal does not know that the command has come to its end")
				}
			})
		})
	})
}

// A run that the user stops says so, brings the change in hand to its end and is gone on with as one that was killed.
func TestRunResumesAfterInterrupt(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		whole := s.newRun(s.machine(t))
		out := whole.mustSucceed(t)
		want, changes := describeMachine(t, whole.machine, out.key), sortedLines(describeChanges(out.did))
		for at := 1; at < len(out.did); at += 5 { // after the last one a run may well end before it looks
			r := s.newRun(s.machine(t))
			r.stop = at
			first := r.execute(t)
			if !errors.Is(first.err, errInterrupted) && len(first.did) < len(out.did) {
				t.Errorf("stopped at change %d the run says: %v", at, first.err)
			}
			second := r.rerun().mustSucceed(t)
			if diff := diffLines(want, describeMachine(t, r.machine, second.key)); diff != "" {
				t.Errorf("stopped at change %d (-want +got):\n%s", at, diff)
			}
			if diff := diffLines(changes, sortedLines(append(describeChanges(first.did), describeChanges(second.did)...))); diff != "" {
				t.Errorf("stopped at change %d (-want +got):\n%s", at, diff)
			}
		}
	})
}

// forEachFault lists every way to break a run of n changes; in short tests only some.
func forEachFault(n int, try func(at *fault.World)) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for at := 0; at < n; at += step {
		try(&fault.World{At: at})
		try(&fault.World{At: at, After: true})
	}
}

func faultName(at *fault.World) string {
	return fmt.Sprintf("%s change %d", map[bool]string{true: "after", false: "before"}[at.After], at.At)
}

func sortedLines(all []string) string { return strings.Join(slices.Sorted(slices.Values(all)), "\n") }
