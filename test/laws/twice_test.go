package laws

import "testing"

func TestRunningTwiceChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		r := s.on(s.machine(t))
		r.succeed(t)
		before := r.machine.Snapshot()
		out := r.again().succeed(t)
		if len(out.did) > 0 {
			t.Errorf("the second run changed %v", of(out.did))
		}
		if diff := diff(before, r.machine.Snapshot()); diff != "" {
			t.Errorf("after the second run (-before +after):\n%s", diff)
		}
	})
}
