package laws

import (
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

// defragSubject frees the space of three members, the first of which leads.
func defragSubject() subject {
	return subject{name: "defragment etcd", phases: workflow.DefragmentEtcd, machine: newFragmentedEtcd,
		setUp: setUpReset, node: "cp1"}
}

// Wherever a defragmentation is killed, the same command resumes it, also after an alarm, and a dry run
// frees nothing.
func TestDefragmentationResumesAtEveryCrashPoint(t *testing.T) {
	s := defragSubject()
	full := s
	full.machine = func(t testing.TB) *fake.World {
		w := newFragmentedEtcd(t)
		w.MemberProblems = []string{"memberID:2 alarm:NOSPACE "}
		return w
	}
	for name, s := range map[string]subject{"fragmented": s, "out of space": full} {
		t.Run(name, func(t *testing.T) {
			whole := s.newRun(s.machine(t))
			out := whole.mustSucceed(t)
			for id, status := range whole.machine.MemberStatuses {
				if status.DBSize != status.DBInUse {
					t.Errorf("member %d has %+v", id, status)
				}
			}
			forEachFault(len(out.did), func(at *fault.World) {
				t.Run(faultName(at), func(t *testing.T) {
					at.Crash = true
					r := s.newRun(s.machine(t))
					r.fault = at
					if first := r.execute(t); !first.crashed {
						t.Fatalf("the run did not get that far: %v", first.err)
					}
					r.rerun().mustSucceed(t)
					for id, status := range r.machine.MemberStatuses {
						if status.DBSize != status.DBInUse || len(r.machine.MemberProblems) > 0 {
							t.Errorf("member %d has %+v, alarms %q", id, status, r.machine.MemberProblems)
						}
					}
					if lease := r.machine.Snapshot(); lease != whole.machine.Snapshot() {
						t.Errorf("the cluster differs:\n%s", diffLines(whole.machine.Snapshot(), lease))
					}
				})
			})
			dry := s.newRun(s.machine(t))
			before := dry.machine.Snapshot()
			dry.asDryRun(t).mustSucceed(t)
			if diff := diffLines(before, dry.machine.Snapshot()); diff != "" {
				t.Errorf("the dry run changed the cluster:\n%s", diff)
			}
		})
	}
}

func newFragmentedEtcd(t testing.TB) *fake.World {
	w := usedControlPlane(t)
	w.MemberList, w.MemberStatuses = nil, map[uint64]state.MemberStatus{}
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		id, host := uint64(i+1), "https://192.0.2.1"+string(rune('0'+i))
		w.MemberList = append(w.MemberList, state.Member{ID: id, Name: name, PeerURLs: []string{host + ":2380"},
			ClientURLs: []string{host + ":2379"}})
		w.MemberStatuses[id] = state.MemberStatus{AppliedIndex: 100, CommittedIndex: 100, Leader: 1, Revision: 50,
			DBSize: 400 << 20, DBInUse: 100 << 20, DBQuota: 2 << 30}
	}
	return w
}
