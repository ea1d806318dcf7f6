package laws

import "testing"

func TestSecondRunChangesNothing(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		r := s.newRun(s.machine(t))
		r.mustSucceed(t)
		before := r.machine.Snapshot()
		out := r.rerun().mustSucceed(t)
		if len(out.did) > 0 {
			t.Errorf("the second run changed %v", describeChanges(out.did))
		}
		if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
			t.Errorf("after the second run (-before +after):\n%s", diff)
		}
	})
}
