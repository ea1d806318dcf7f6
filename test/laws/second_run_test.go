package laws

import "testing"

func TestSecondRunChangesNothing(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		r := s.newRun(s.machine(t))
		r.mustSucceed(t)
		before := r.machine.Snapshot()
		out := r.rerun().mustSucceed(t)
		if did := s.withoutRepeated(out.did); len(did) > 0 {
			t.Errorf("the second run changed %v", describeChanges(did))
		}
		if diff := diffLines(before, r.machine.Snapshot()); diff != "" && !s.repeats {
			t.Errorf("after the second run (-before +after):\n%s", diff)
		}
	})
}
