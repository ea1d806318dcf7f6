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
func TestEveryCrashPointResumes(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		whole := s.on(s.machine(t))
		out := whole.succeed(t)
		want, changes := describe(t, whole.machine, out.key), sorted(of(out.did))
		breaks(len(out.did), func(at *fault.World) {
			t.Run(name(at), func(t *testing.T) {
				t.Parallel()
				at.Crash = true
				r := s.on(s.machine(t))
				r.fault = at
				first := r.do(t)
				if !first.crashed {
					t.Fatalf("the run did not get that far: %v", first.err)
				}
				second := foretold(t, r.again())
				if diff := diff(want, describe(t, r.machine, second.key)); diff != "" {
					t.Errorf("the machine is not as after one run (-want +got):\n%s", diff)
				}
				if diff := diff(changes, sorted(append(of(first.did), of(second.did)...))); diff != "" {
					t.Errorf("both runs together did not do each thing once (-want +got):\n%s", diff)
				}
				if !r.finished(t) {
					t.Error("the journal does not know that the command has come to its end")
				}
			})
		})
	})
}

// A run that the user stops says so, brings the change in hand to its end and is gone on with as one that was killed.
func TestInterruptsResume(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		whole := s.on(s.machine(t))
		out := whole.succeed(t)
		want, changes := describe(t, whole.machine, out.key), sorted(of(out.did))
		for at := 1; at < len(out.did); at += 5 { // after the last one a run may well end before it looks
			r := s.on(s.machine(t))
			r.stop = at
			first := r.do(t)
			if !errors.Is(first.err, errInterrupted) && len(first.did) < len(out.did) {
				t.Errorf("stopped at change %d the run says: %v", at, first.err)
			}
			second := r.again().succeed(t)
			if diff := diff(want, describe(t, r.machine, second.key)); diff != "" {
				t.Errorf("stopped at change %d (-want +got):\n%s", at, diff)
			}
			if diff := diff(changes, sorted(append(of(first.did), of(second.did)...))); diff != "" && !s.putsBack {
				t.Errorf("stopped at change %d (-want +got):\n%s", at, diff)
			}
		}
	})
}

// breaks lists every way to break a run of n changes; in short tests only some.
func breaks(n int, try func(at *fault.World)) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for at := 0; at < n; at += step {
		try(&fault.World{At: at})
		try(&fault.World{At: at, After: true})
	}
}

func name(at *fault.World) string {
	return fmt.Sprintf("%s change %d", map[bool]string{true: "after", false: "before"}[at.After], at.At)
}

func sorted(all []string) string { return strings.Join(slices.Sorted(slices.Values(all)), "\n") }
