package laws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// A member whose etcd is down must find out about the others from elsewhere before its data are replaced.
func TestRestoreWithoutLocalEtcd(t *testing.T) {
	all := []uint64{1, 2, 3}
	onDisk := func(m *fake.World) {
		m.MemberList = append(m.MemberList, newMember(4, "cp4", "192.0.2.14"))
		m.UnreachableMembers = append(m.UnreachableMembers, 4)
		m.Files[memberDir+"/snap/db"] = memory.File{Data: []byte("database"), Mode: 0o600}
		m.SnapshotInfos[memberDir+"/snap/db"] = etcdsnapshot.Info{Revision: 5_000, Members: []string{"cp1", "cp2", "cp4"},
			PeerURLs: map[string][]string{"cp4": {"https://192.0.2.14:2380"}}}
	}
	for name, c := range map[string]struct {
		change func(*fake.World)
		lost   []string
		word   string // of the error; empty if it is restored
	}{
		"the others have a quorum": {change: func(m *fake.World) {
			m.UnreachableMembers = []uint64{1}
			data := m.Files[etcdYAML]
			data.Data = []byte(strings.Replace(string(data.Data), "--initial-cluster=cp1=https://192.0.2.10:2380",
				"--initial-cluster=cp1=https://192.0.2.10:2380,cp2=https://192.0.2.11:2380", 1))
			m.Files[etcdYAML] = data
		}, lost: []string{"cp2", "cp3"}, word: "the other members of etcd have a quorum"},
		"the snapshot names others":  {change: func(m *fake.World) { m.UnreachableMembers = slices.Clone(all) }, word: "do not answer: cp2, cp3"},
		"the data on disk name more": {change: func(m *fake.World) { m.UnreachableMembers = slices.Clone(all); onDisk(m) }, word: "do not answer: cp2, cp4, cp3"},
		"no address is known": {change: func(m *fake.World) { m.UnreachableMembers = slices.Clone(all) },
			word: "no address of cp2 is known, so it was not asked"},
		"no space": {change: func(m *fake.World) { m.MemberProblems = []string{"memberID:2 alarm:NOSPACE "} },
			word: "etcd has no space left"},
		"all are declared lost": {change: func(m *fake.World) { m.UnreachableMembers = slices.Clone(all); onDisk(m) },
			lost: []string{"cp2", "cp3", "cp4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := restoreSubject(etcddata.Options{Lost: c.lost})
			r := s.newRun(s.machine(t))
			c.change(r.machine)
			before := r.machine.Snapshot()
			out := r.execute(t)
			if c.word == "" {
				if out.err != nil {
					t.Fatal(out.err)
				}
				checkRestoredAbove(t, r.machine, 5_000)
				return
			}
			if out.err == nil || !strings.Contains(out.err.Error(), c.word) {
				t.Errorf("%q is not in %v", c.word, out.err)
			}
			if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
				t.Errorf("it changed the machine:\n%s", diff)
			}
		})
	}
}

// checkRestoredAbove checks that the data in use are restored ones whose revisions no client has seen.
func checkRestoredAbove(t *testing.T, m *fake.World, seen int64) {
	t.Helper()
	var token string
	var revision int64
	if _, err := fmt.Sscan(string(m.Files[memberDir+"/"+memory.RestoredFile].Data), &token, &revision); err != nil || revision <= seen {
		t.Errorf("the restored data begin at revision %d, %v; clients have seen %d", revision, err, seen)
	}
}

// etcd that stops answering after the first check is not taken for one without other members.
func TestRestoreWhoseEtcdStopsMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		lost []string
		word string
	}{
		"undeclared":    {nil, "do not answer: cp2, cp3"},
		"declared lost": {[]string{"cp2", "cp3"}, "etcd has lost its quorum meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			var r run
			s := restoreSubject(etcddata.Options{Lost: c.lost, Ask: func(context.Context, string) error {
				r.machine.UnreachableMembers = []uint64{1, 2, 3}
				return nil
			}})
			r = s.newRun(s.machine(t))
			out := r.execute(t)
			if out.err == nil || !strings.Contains(out.err.Error(), c.word) {
				t.Errorf("%q is not in %v", c.word, out.err)
			}
			for file := range r.machine.Files {
				if strings.Contains(file, "kubeadm-restored-") {
					t.Errorf("%s is left", file)
				}
			}
			if x, err := etcddata.Read(t.Context(), r.machine, node.DefaultPaths()); x != nil || err != nil {
				t.Errorf("the exchange %+v, %v is left", x, err)
			}
			if len(r.machine.MemberList) != 3 || string(r.machine.Files[memberDir+"/db"].Data) != "previous" {
				t.Errorf("the members are %v", r.machine.MemberList)
			}
		})
	}
}

// Restores of the same file go on to higher revisions: a client that has seen the first one notices the
// second.
func TestRestoreTwice(t *testing.T) {
	s := restoreSubject(etcddata.Options{})
	r := s.newRun(s.machine(t))
	r.mustSucceed(t)
	status, err := r.machine.MemberStatus(t.Context(), state.Etcd{}, r.machine.MemberList[0])
	if err != nil {
		t.Fatal(err)
	}
	status.Revision += 5_000
	r.machine.MemberStatuses[r.machine.MemberList[0].ID] = status
	r.rerun().mustSucceed(t)
	checkRestoredAbove(t, r.machine, status.Revision)
}

// What a member says is its ID, so a list with another URL of it does not make it one of the others; and
// an alarm takes no vote.
func TestRestoreWithMovedMemberAndAlarm(t *testing.T) {
	s := restoreSubject(etcddata.Options{})
	r := s.newRun(s.machine(t))
	r.machine.MemberList[0].PeerURLs = []string{"https://198.51.100.1:2380"}
	r.machine.MemberProblems = []string{"memberID:2 alarm:CORRUPT "}
	out := r.mustSucceed(t)
	for _, c := range out.did {
		if m, ok := c.(change.SetMember); ok && m.PeerURL == "https://198.51.100.1:2380" {
			t.Error("this machine's member was removed")
		}
	}
}

// Another restore supersedes an unfinished one, whichever change that was killed at.
func TestRestoreSupersedesAnother(t *testing.T) {
	s := restoreSubject(etcddata.Options{})
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		m := r.machine
		m.Files["/other.db"] = m.Files[snapshotPath]
		m.SnapshotInfos["/other.db"] = m.SnapshotInfos[snapshotPath]
		other := restoreSubject(etcddata.Options{Lost: []string{"cp2", "cp3"}})
		other.phases = restorePhasesOf("/other.db", []string{"cp2", "cp3"})
		other.newRun(m).mustSucceed(t)
		if x, err := etcddata.Read(t.Context(), m, node.DefaultPaths()); x != nil || err != nil {
			t.Errorf("the exchange %+v, %v is left", x, err)
		}
		previous := 0
		for _, f := range m.Files {
			if string(f.Data) == "previous" {
				previous++
			}
		}
		if previous != 1 {
			t.Error("the data from before both are gone")
		}
	})
}

// A member with corrupt data answers and votes. It is replaced, and the alarm that it raised is cleared.
func TestRejoinCorruptMember(t *testing.T) {
	s := rejoinSubject()
	s.machine = machineOfThree
	r := s.newRun(s.machine(t))
	manifest := r.machine.Files[etcdYAML]
	manifest.Data = []byte(strings.Replace(string(manifest.Data), "cp1=https://192.0.2.10:2380",
		"cp1=https://192.0.2.10:2380,cp2=https://192.0.2.11:2380", 1))
	r.machine.Files[etcdYAML] = manifest
	r.machine.MemberProblems = []string{"memberID:1 alarm:CORRUPT "}
	r.mustSucceed(t)
	if len(r.machine.MemberProblems) > 0 || len(listKept(r.machine)) != 1 {
		t.Errorf("alarms %v, kept %v", r.machine.MemberProblems, listKept(r.machine))
	}
}

// If the members from which a killed rejoin wanted the data are lost, recover puts the kept data back and
// continues with them.
func TestRecoverAfterInterruptedRejoin(t *testing.T) {
	s := rejoinSubject()
	s.machine = func(t testing.TB) *fake.World {
		m := machineOfThree(t)
		data := m.Files[etcdYAML]
		data.Data = []byte(strings.Replace(string(data.Data), "cp1=https://192.0.2.10:2380",
			"cp1=https://192.0.2.10:2380,cp2=https://192.0.2.11:2380", 1))
		m.Files[etcdYAML] = data
		m.MemberProblems = []string{"memberID:1 alarm:CORRUPT "}
		return m
	}
	out := s.newRun(s.machine(t)).mustSucceed(t)
	removal := slices.IndexFunc(out.did, func(c change.Change) bool {
		m, ok := c.(change.SetMember)
		return ok && m.State == change.Absent
	})
	if removal < 0 {
		t.Fatal("no member is removed")
	}
	forEachFault(removal, func(at *fault.World) { // until then the data on disk are of this member
		t.Run(faultName(at), func(t *testing.T) {
			at.Crash = true
			r := s.newRun(s.machine(t))
			r.fault = at
			r.execute(t)
			m := r.machine
			m.MemberProblems = nil
			m.UnreachableMembers = []uint64{2, 3}
			recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}}).newRun(m).mustSucceed(t)
			checkRecoveredEtcd(t, m)
		})
	})
}

// A member that joined after the forced start, and before the run that was killed is resumed, stays.
func TestResumedRecoverKeepsNewMembers(t *testing.T) {
	s := recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}})
	kept := 0
	s.forEachKill(t, func(r killedRun) {
		m := r.machine
		x, err := etcddata.Read(t.Context(), m, node.DefaultPaths())
		if err != nil {
			t.Fatal(err)
		}
		if len(m.MemberList) != 1 || x == nil {
			return // not forced yet, or complete
		}
		kept++
		m.MemberList = append(m.MemberList, newMember(9, "cp4", "192.0.2.14"))
		r.rerun().mustSucceed(t)
		if names := memberNames(m); !slices.Equal(names, []string{"cp1", "cp4"}) ||
			strings.Contains(string(m.Files[etcdYAML].Data), "force-new-cluster") {
			t.Errorf("%s: the members are %v", r.name, names)
		}
	})
	if kept == 0 {
		t.Error("no run was killed after the forced start")
	}
}

func memberNames(m *fake.World) (names []string) {
	for _, one := range m.MemberList {
		names = append(names, etcdcluster.MemberName(one))
	}
	return names
}

// A change that fails leaves what the same command needs to complete the restore.
func TestRestoreResumesAfterEachFailedChange(t *testing.T) {
	s := restoreSubject(etcddata.Options{})
	out := s.newRun(s.machine(t)).mustSucceed(t)
	failed := 0
	forEachFault(len(out.did), func(at *fault.World) {
		r := s.newRun(s.machine(t))
		r.fault = at
		if r.execute(t).err == nil {
			return // a change that need not succeed
		}
		failed++
		r.rerun().mustSucceed(t)
		checkExchanged(t, r.machine, "cp1")
	})
	if failed == 0 {
		t.Error("no change failed")
	}
}
