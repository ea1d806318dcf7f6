package laws

import (
	"crypto/x509"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const (
	snapshotPath = "/var/backups/etcd.db"
	etcdYAML     = "/etc/kubernetes/manifests/etcd.yaml"
	memberDir    = "/var/lib/etcd/member"
)

// restoreSubject is "kubeadm etcd restore" on the first of three control planes.
func restoreSubject(o etcddata.Options) subject {
	o.Snapshot = snapshotPath
	return subject{name: "etcd restore", node: "cp1", machine: machineOfThree, setUp: setUpEtcdData,
		phases: workflow.RestoreEtcd(o)}
}

// rejoinSubject is "kubeadm etcd rejoin" on the first of three control planes, after the data were
// restored on the second.
func rejoinSubject() subject {
	return subject{name: "etcd rejoin", node: "cp1", machine: machineOfRestored, setUp: setUpEtcdData,
		phases: workflow.RejoinEtcd(etcddata.Options{})}
}

// recoverSubjectOf is "kubeadm etcd recover" on the only one of three control planes that is left.
func recoverSubjectOf(o etcddata.Options) subject {
	return subject{name: "etcd recover", node: "cp1", machine: machineWithoutQuorum, setUp: setUpEtcdData,
		phases: workflow.RecoverEtcd(o)}
}

// machineWithoutQuorum is the only one of three control planes that is left.
func machineWithoutQuorum(t testing.TB) *fake.World {
	m := machineOfThree(t)
	m.UnreachableMembers = []uint64{2, 3}
	return m
}

// setUpEtcdData reads this machine as the commands do: from its files, without an API server.
func setUpEtcdData(t testing.TB, e *engine.Env) (err error) {
	e.Local, err = existing.ReadControlPlane(t.Context(), e.World, config.NewLocal())
	e.Local.Name = "cp1"
	e.Node = engine.Resolved(&node.Node{Local: e.Local})
	e.Admin = engine.As(existing.Admin(e.Local, ""))
	return err
}

// machineOfThree is a control plane whose etcd has three members, with a snapshot.
func machineOfThree(t testing.TB) *fake.World {
	m := renewedMachine(t)
	m.MemberList = []state.Member{newMember(1, "cp1", "192.0.2.10"), newMember(2, "cp2", "192.0.2.11"),
		newMember(3, "cp3", "192.0.2.12")}
	m.Files[memberDir] = memory.File{Mode: fs.ModeDir | 0o700}
	m.Files[memberDir+"/db"] = memory.File{Data: []byte("previous"), Mode: 0o600}
	if err := m.World.Do(t.Context(), change.SaveSnapshot{Path: snapshotPath,
		Via: state.Etcd{Endpoints: []string{"https://192.0.2.10:2379"}}}); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.ParseCertificates(m.Files["/etc/kubernetes/pki/ca.crt"].Data)
	if err != nil {
		t.Fatal(err)
	}
	m.SnapshotInfos = map[string]etcdsnapshot.Info{snapshotPath: {Revision: 7, StorageVersion: "3.6.0",
		CAHashes: []string{pki.PinOf(ca[0]).String()}, Members: []string{"cp1", "cp2", "cp3"}}}
	return m
}

// machineOfRestored is a control plane whose member was removed from the cluster of cp2.
func machineOfRestored(t testing.TB) *fake.World {
	m := machineOfThree(t)
	m.MemberList = []state.Member{newMember(102, "cp2", "192.0.2.11")}
	data := string(m.Files[etcdYAML].Data)
	own := "--initial-cluster=cp1=https://192.0.2.10:2380"
	m.Files[etcdYAML] = memory.File{Mode: 0o600, Data: []byte(strings.Replace(data, own,
		own+",cp2=https://192.0.2.11:2380\n    - --initial-cluster-state=existing", 1))}
	return m
}

// checkNoEmptyStart fails if etcd could start a new, empty cluster.
func checkNoEmptyStart(t *testing.T, m *fake.World) {
	t.Helper()
	data, hasManifest := m.Files[etcdYAML]
	_, hasData := m.Files[memberDir]
	if hasManifest && !hasData && !strings.Contains(string(data.Data), "--initial-cluster-state=existing") {
		t.Error("etcd would start with an empty directory as a new cluster")
	}
}

// listKept are the directories with previous data.
func listKept(m *fake.World) (all []string) {
	for name, f := range m.Files {
		if strings.HasPrefix(name, "/var/lib/etcd/kubeadm-kept-") && strings.HasSuffix(name, "/db") &&
			string(f.Data) == "previous" {
			all = append(all, name)
		}
	}
	return all
}

func checkExchanged(t *testing.T, m *fake.World, members ...string) {
	t.Helper()
	var names []string
	all, err := m.Members(t.Context(), state.Etcd{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		names = append(names, etcdcluster.MemberName(one))
		if one.Learner {
			t.Errorf("%s is a learner", one.Name)
		}
	}
	if !slices.Equal(names, members) {
		t.Errorf("the members are %v", names)
	}
	if kept := listKept(m); len(kept) != 1 {
		t.Errorf("the previous data are kept in %v", kept)
	}
	if !strings.Contains(string(m.Files[etcdYAML].Data), "--initial-cluster-state=existing") {
		t.Errorf("the manifest is\n%s", m.Files[etcdYAML].Data)
	}
	if x, err := etcddata.Read(t.Context(), m, node.DefaultPaths()); x != nil || err != nil {
		t.Errorf("the exchange %+v, %v is left", x, err)
	}
	for name := range m.Files {
		if strings.HasPrefix(name, "/var/lib/etcd/kubeadm-restored-") {
			t.Errorf("%s is left", name)
		}
	}
}

func TestRestoreEtcdOnOneOfThree(t *testing.T) {
	r := restoreSubject(etcddata.Options{}).newRun(machineOfThree(t))
	addLeader(t, r.machine, "kube-controller-manager", "cp2_1", "7")
	addLeader(t, r.machine, "kube-scheduler", "cp1_2", "1000000100")
	out := checkDryRun(t, r)
	checkExchanged(t, r.machine, "cp1")
	checkLeader(t, r.machine, "kube-controller-manager", "")
	checkLeader(t, r.machine, "kube-scheduler", "cp1_2")
	t.Log(renderScript(out.events))
}

func TestRejoinEtcd(t *testing.T) {
	r := rejoinSubject().newRun(machineOfRestored(t))
	out := checkDryRun(t, r)
	checkExchanged(t, r.machine, "cp2", "cp1")
	t.Log(renderScript(out.events))
	if again := r.rerun().mustSucceed(t).did; len(again) > 0 {
		t.Errorf("again: %v", describeChanges(again))
	}
}

// Whichever change a run is killed at, etcd cannot start empty, and the same command ends as one run.
func TestEtcdDataExchangeResumesAtEveryCrashPoint(t *testing.T) {
	for _, c := range []struct {
		subject subject
		members []string
	}{{restoreSubject(etcddata.Options{}), []string{"cp1"}}, {rejoinSubject(), []string{"cp2", "cp1"}}} {
		t.Run(c.subject.name, func(t *testing.T) {
			c.subject.killEverywhere(t, func(t *testing.T, r killedRun) {
				checkNoEmptyStart(t, r.machine)
				if len(listKept(r.machine)) == 0 && string(r.machine.Files[memberDir+"/db"].Data) != "previous" {
					t.Error("the previous data are gone")
				}
				r.rerun().mustSucceed(t)
				checkExchanged(t, r.machine, c.members...)
			})
		})
	}
}

func TestRecoverEtcd(t *testing.T) {
	s := recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}})
	r := s.newRun(s.machine(t))
	out := checkDryRun(t, r)
	t.Log(renderScript(out.events))
	checkRecoveredEtcd(t, r.machine)
	if again := r.rerun().mustSucceed(t).did; len(again) > 0 {
		t.Errorf("again: %v", describeChanges(again))
	}
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		checkRecoveredEtcd(t, r.machine)
	})
}

// A member whose machine has booted since the quorum was lost serves no clients. The members that its peer
// URL names are still asked, and must be declared lost.
func TestRecoverEtcdAfterReboot(t *testing.T) {
	for name, lost := range map[string][]string{"all are lost": {"cp2", "cp3"}, "one is not declared": {"cp2"}} {
		t.Run(name, func(t *testing.T) {
			s := recoverSubjectOf(etcddata.Options{Lost: lost})
			r := s.newRun(machineWithoutQuorum(t))
			r.machine.UnreachableMembers, r.machine.PeersOnly = []uint64{1, 2, 3}, []uint64{1}
			out := r.execute(t)
			if len(lost) == 1 {
				if out.err == nil || !strings.Contains(out.err.Error(), "these members do not answer: cp3") {
					t.Errorf("it is not refused: %v", out.err)
				}
				return
			}
			if out.err != nil {
				t.Fatal(out.err)
			}
			checkRecoveredEtcd(t, r.machine)
		})
	}
}

func checkRecoveredEtcd(t *testing.T, m *fake.World) {
	t.Helper()
	data := string(m.Files[etcdYAML].Data)
	if len(m.MemberList) != 1 || m.MemberList[0].Name != "cp1" || strings.Contains(data, "force-new-cluster") ||
		!strings.Contains(data, "--initial-cluster-state=existing") {
		t.Errorf("the members are %v, the manifest is\n%s", m.MemberList, data)
	}
	if string(m.Files[memberDir+"/db"].Data) != "previous" {
		t.Error("the data were replaced")
	}
}

// Whatever would make two clusters of one is refused, with what was found and what to do.
func TestSplitBrainIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		subject subject
		change  func(*fake.World)
		words   []string
	}{
		"recover, members are not given up": {recoverSubjectOf(etcddata.Options{Lost: []string{"cp3"}}), nil,
			[]string{"these members do not answer: cp2"}},
		"restore, members are not given up": {restoreSubject(etcddata.Options{}),
			func(m *fake.World) { m.UnreachableMembers = []uint64{2, 3} },
			[]string{"these members do not answer: cp2, cp3"}},
		"recover, a learner": {recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}}),
			func(m *fake.World) { m.MemberList[0].Learner = true }, []string{"is a learner"}},
		"recover, an API server answers": {recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}}),
			func(m *fake.World) {
				m.RemoteCertificates = map[string]*x509.Certificate{"192.0.2.12:6443": {}}
			}, []string{"the API server of cp3 answers"}},
		"recover, a peer port answers": {recoverSubjectOf(etcddata.Options{Lost: []string{"cp2", "cp3"}}),
			func(m *fake.World) {
				m.RemoteCertificates = map[string]*x509.Certificate{"192.0.2.11:2380": {}}
			}, []string{"the etcd member of cp2 answers"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.subject.newRun(c.subject.machine(t))
			if c.change != nil {
				c.change(r.machine)
			}
			before := r.machine.Snapshot()
			out := r.execute(t)
			for _, word := range c.words {
				if out.err == nil || !strings.Contains(out.err.Error(), word) {
					t.Errorf("%q is not in %v", word, out.err)
				}
			}
			if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
				t.Errorf("it changed the machine:\n%s", diff)
			}
		})
	}
}

// A snapshot that this node cannot use is refused before anything changes.
func TestUnusableSnapshotIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fake.World)
		word   string
	}{
		"newer etcd": {func(m *fake.World) { setSnapshot(m, func(s *etcdsnapshot.Info) { s.StorageVersion = "3.9.0" }) },
			"cannot read the snapshot, which has storage version 3.9.0"},
		"another cluster": {func(m *fake.World) { setSnapshot(m, func(s *etcdsnapshot.Info) { s.CAHashes = []string{"sha256:00"} }) },
			"the snapshot is of another cluster"},
		"encryption without a file": {func(m *fake.World) {
			setSnapshot(m, func(s *etcdsnapshot.Info) { s.Encryption = []string{"aescbc:key1"} })
		}, "it has no --encryption-provider-config"},
		"a flipped byte": {func(m *fake.World) {
			f := m.Files[snapshotPath]
			f.Data = slices.Clone(f.Data)
			f.Data[0] ^= 1
			m.Files[snapshotPath] = f
		}, "does not match its checksum"},
		"empty":   {func(m *fake.World) { m.Files[snapshotPath] = memory.File{Mode: 0o600} }, "the file is empty"},
		"missing": {func(m *fake.World) { delete(m.Files, snapshotPath) }, "file does not exist"},
		"a manifest without data-dir": {func(m *fake.World) {
			f := m.Files[etcdYAML]
			f.Data = []byte(strings.Replace(string(f.Data), "--data-dir=", "--other-dir=", 1))
			m.Files[etcdYAML] = f
		}, "it does not set --data-dir"},
		"wal-dir": {func(m *fake.World) {
			f := m.Files[etcdYAML]
			f.Data = []byte(strings.Replace(string(f.Data), "--data-dir=", "--wal-dir=/wal\n    - --data-dir=", 1))
			m.Files[etcdYAML] = f
		}, "--wal-dir=/wal keeps a part of the data elsewhere"},
		"external etcd": {func(m *fake.World) { delete(m.Files, etcdYAML) }, "runs no etcd member"},
	} {
		t.Run(name, func(t *testing.T) {
			s := restoreSubject(etcddata.Options{})
			r := s.newRun(s.machine(t))
			c.change(r.machine)
			before := r.machine.Snapshot()
			out := r.execute(t)
			if out.err == nil || !strings.Contains(out.err.Error(), c.word) {
				t.Errorf("%q is not in %v", c.word, out.err)
			}
			if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
				t.Errorf("it changed the machine:\n%s", diff)
			}
		})
	}
}

func setSnapshot(m *fake.World, change func(*etcdsnapshot.Info)) {
	s := m.SnapshotInfos[snapshotPath]
	change(&s)
	m.SnapshotInfos = map[string]etcdsnapshot.Info{snapshotPath: s}
}

// If etcd does not run with the restored data, or the API server cannot read them, the previous ones are
// put back, whichever change the run is killed at.
func TestFailedRestoreIsUndone(t *testing.T) {
	for _, component := range []string{"etcd", "kube-apiserver"} {
		s := restoreSubject(etcddata.Options{})
		crash := func(m *fake.World) *fake.World {
			m.Clock = newFastClock(m.Now()) // the crashes are counted once a second
			m.CrashLog = func(c string, _ []byte) string {
				if _, restored := m.Files[memberDir+"/"+memory.RestoredFile]; restored && c == component {
					return "panic: the data are damaged"
				}
				return ""
			}
			return m
		}
		first := s.newRun(crash(s.machine(t)))
		out := first.execute(t)
		checkPutBack(t, first.machine, out.err)
		forEachFault(len(out.did), func(at *fault.World) {
			t.Run(component+" "+faultName(at), func(t *testing.T) {
				at.Crash = true
				r := s.newRun(crash(s.machine(t)))
				r.fault = at
				if one := r.execute(t); !one.crashed {
					t.Fatalf("the run did not get that far: %v", one.err)
				}
				checkNoEmptyStart(t, r.machine)
				r = r.rerun()
				r.machine.Clock = newFastClock(r.machine.Now())
				out := r.execute(t)
				if x, _ := etcddata.Read(t.Context(), r.machine, node.DefaultPaths()); x != nil && x.Stage == etcddata.Serving {
					checkUndoneOnDemand(t, r, out.err)
					return
				}
				checkPutBack(t, r.machine, out.err)
			})
		})
	}
}

// newFastClock returns a clock that advances by a second at each call.
func newFastClock(from time.Time) func() time.Time {
	var calls atomic.Int64
	return func() time.Time { return from.Add(time.Duration(calls.Add(1)) * time.Second) }
}

func checkPutBack(t *testing.T, m *fake.World, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "etcd runs with the previous data again") {
		t.Errorf("it says %v", err)
	}
	if string(m.Files[memberDir+"/db"].Data) != "previous" {
		t.Error("the previous data are not in use")
	}
	if x, err := etcddata.Read(t.Context(), m, node.DefaultPaths()); x != nil || err != nil {
		t.Errorf("the exchange %+v, %v is left", x, err)
	}
}

// checkUndoneOnDemand checks that a resumed restore whose API server crashes keeps the restored data, which
// clients may have used, and says how to put the previous ones back.
func checkUndoneOnDemand(t *testing.T, r run, err error) {
	t.Helper()
	if err == nil || !slices.Contains(problem.Hints(err), "to put the previous data back: kubeadm etcd restore --undo") {
		t.Errorf("it says %v, %q", err, problem.Hints(err))
	}
	if string(r.machine.Files[memberDir+"/db"].Data) == "previous" {
		t.Error("the restored data were given up unasked")
	}
	s := restoreSubject(etcddata.Options{Undo: true})
	again := s.newRun(r.machine)
	again.machine.Clock = newFastClock(r.machine.Now())
	if out := again.execute(t); out.err != nil {
		t.Error(out.err)
	}
	if string(r.machine.Files[memberDir+"/db"].Data) != "previous" {
		t.Error("the previous data are not in use")
	}
}

func restorePhasesOf(snapshot string, lost []string) []engine.Phase {
	return workflow.RestoreEtcd(etcddata.Options{Snapshot: snapshot, Lost: lost})
}
