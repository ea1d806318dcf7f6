package laws

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/world/fault"
)

// A killed run is resumed by the same command, minutes later and with other random values: the
// machine ends in the same state, each change is made exactly once, a dry run announces the rest,
// and the journal records that the command has finished.
func TestRunResumesAtEveryCrashPoint(t *testing.T) {
	forEachSubject(t, checkResumes)
}

func checkResumes(t *testing.T, s subject) {
	t.Helper()
	whole := s.newRun(s.machine(t))
	out, killed := whole.killedEverywhere(t)
	want, changes := s.describe(t, whole.machine, out.key),
		sortedLines(describeChanges(s.withoutRepeated(out.did)))
	for _, first := range killed {
		t.Run(first.name, func(t *testing.T) {
			second := checkDryRun(t, first.rerun())
			if diff := diffLines(want, s.describe(t, first.machine, second.key)); diff != "" {
				t.Errorf("the machine is not as after one run (-want +got):\n%s", diff)
			}
			if diff := diffLines(changes,
				sortedLines(append(describeChanges(s.withoutRepeated(first.did)),
					describeChanges(s.withoutRepeated(second.did))...))); diff != "" {
				t.Errorf("both runs together did not make each change once (-want +got):\n%s",
					diff)
			}
			if !first.isFinished(t) {
				t.Error("the journal does not record that the command has finished")
			}
		})
	}
}

// An interrupted run returns that error, completes the current change and is resumed like a killed
// one.
func TestRunResumesAfterInterrupt(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		whole := s.newRun(s.machine(t))
		out := whole.mustSucceed(t)
		want, changes := s.describe(t, whole.machine, out.key),
			sortedLines(describeChanges(s.withoutRepeated(out.did)))
		// after the last change the run may finish before it notices
		for at := 1; at < len(out.did); at += 5 {
			r := s.newRun(s.machine(t))
			r.stop = at
			first := r.execute(t)
			if !errors.Is(first.err, errInterrupted) && len(first.did) < len(out.did) {
				t.Errorf("interrupted at change %d, the run returns: %v", at, first.err)
			}
			second := r.rerun().mustSucceed(t)
			if diff := diffLines(want, s.describe(t, r.machine, second.key)); diff != "" {
				t.Errorf("stopped at change %d (-want +got):\n%s", at, diff)
			}
			if diff := diffLines(changes,
				sortedLines(append(describeChanges(s.withoutRepeated(first.did)),
					describeChanges(s.withoutRepeated(second.did))...))); diff != "" && !s.restores {
				t.Errorf("stopped at change %d (-want +got):\n%s", at, diff)
			}
		}
	})
}

// shortStep is of how many changes a short test tries one.
const shortStep = 7

// forEachFault calls try with a fault before and after each of n changes; in short tests only
// some.
func forEachFault(n int, try func(at *fault.World)) {
	step := 1
	if testing.Short() {
		step = shortStep
	}
	for at := 0; at < n; at += step {
		try(&fault.World{At: at})
		try(&fault.World{At: at, After: true})
	}
}

func faultName(at *fault.World) string {
	return fmt.Sprintf("%s change %d", map[bool]string{true: "after", false: "before"}[at.After],
		at.At)
}

func sortedLines(all []string) string {
	return strings.Join(slices.Sorted(slices.Values(all)), "\n")
}
