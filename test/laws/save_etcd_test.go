package laws

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/node"
	"kubeadm/internal/snapshots"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const snapshotsDir = "/var/lib/kubeadm/etcd-snapshots"

// Files in the directory of snapshots that no save may touch.
var foreignSnapshots = []string{"mine.db", "etcd-00000000-cp1-20200101T000000Z.db",
	".etcd-00000000-cp1-20200101T000000Z.db.kubeadm-ABCDEFGHIJKLMNOPQRSTUVWXYZ"}

// saveSubject is "kubeadm etcd snapshot save" on a control plane that has saved two snapshots and two
// archives, and was killed while it saved a third one.
func saveSubject(o snapshots.Options) subject {
	return subject{name: "etcd snapshot save", node: "cp1", setUp: setUpEtcdData, phases: workflow.SaveEtcdSnapshot(o, func(string) {}),
		machine: func(t testing.TB) *fake.World {
			m := machineOfThree(t)
			for range 2 {
				for _, withKeys := range []bool{false, true} {
					earlier := saveSubject(snapshots.Options{WithKeys: withKeys}).newRun(m)
					earlier.rerun().mustSucceed(t)
				}
			}
			for _, name := range foreignSnapshots {
				m.Files[snapshotsDir+"/"+name] = memory.File{Data: []byte("x"), Mode: 0o600}
			}
			for _, name := range ownSnapshots(m) {
				if strings.HasSuffix(name, etcdsnapshot.SnapshotSuffix) {
					killed := "." + name + ".kubeadm-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					m.Files[snapshotsDir+"/"+killed] = memory.File{Data: []byte("x"), Mode: 0o600}
					break
				}
			}
			return m
		}}
}

// saveSubjects are the kinds of files that are saved, each to the default directory and to a file of the
// user's choice that replaces an earlier one.
func saveSubjects() map[string]subject {
	all := map[string]subject{}
	for name, o := range map[string]snapshots.Options{"snapshot": {Keep: 2}, "with keys": {Keep: 2, WithKeys: true}} {
		all[name] = saveSubject(o)
		to := o
		to.File, to.Keep = "/backup/all"+o.Suffix(), 0
		s := saveSubject(to)
		s.machine = func(t testing.TB) *fake.World {
			m := saveSubject(to).machine(t)
			m.Files[to.File] = m.Files[snapshotsDir+"/"+ownSnapshots(m)[map[bool]int{true: 1}[to.WithKeys]]]
			return m
		}
		all[name+" to a file"] = s
	}
	return all
}

// ownSnapshots are the names of the files that a save of this node may remove, oldest first.
func ownSnapshots(m *fake.World) (names []string) {
	for _, file := range slices.Sorted(maps.Keys(m.Files)) {
		name, ok := etcdsnapshot.ParseFileName(path.Base(file))
		if ok && path.Dir(file) == snapshotsDir && name.Cluster != "00000000" {
			names = append(names, path.Base(file))
		}
	}
	return names
}

// checkSaved fails unless each file with the name of a snapshot is complete, at least the newest two of
// each kind are there, and nothing of others has changed.
func checkSaved(t *testing.T, m *fake.World, atMost int) {
	t.Helper()
	kinds := map[string]int{}
	files := []string{"/backup/all" + etcdsnapshot.SnapshotSuffix, "/backup/all" + etcdsnapshot.ArchiveSuffix}
	for _, name := range ownSnapshots(m) {
		kinds[path.Ext(name)]++
		files = append(files, snapshotsDir+"/"+name)
	}
	for _, file := range files {
		f, ok := m.Files[file]
		if !ok {
			continue
		}
		if f.Mode.Perm() != 0o600 {
			t.Errorf("%s has mode %s", file, f.Mode)
		}
		if err := checkComplete(t, m, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, kind := range []string{etcdsnapshot.SnapshotSuffix, etcdsnapshot.ArchiveSuffix} {
		if n := kinds[kind]; n < 2 || n > atMost {
			t.Errorf("%d files *%s are left: %q", n, kind, ownSnapshots(m))
		}
	}
	for _, name := range foreignSnapshots {
		if string(m.Files[snapshotsDir+"/"+name].Data) != "x" {
			t.Errorf("%s is gone or was replaced", name)
		}
	}
}

func checkComplete(t *testing.T, m *fake.World, file string) error {
	t.Helper()
	if strings.HasSuffix(file, etcdsnapshot.SnapshotSuffix) {
		_, err := m.ReadSnapshot(t.Context(), file)
		return err
	}
	archive, err := etcdsnapshot.OpenArchive(bytes.NewReader(m.Files[file].Data), etcdsnapshot.Key{})
	if err == nil {
		_, err = archive.Read(t.Context(), io.Discard)
	}
	return err
}

// checkNothingTemporary fails if the temporary file of a killed run of this node is left.
func checkNothingTemporary(t *testing.T, m *fake.World) {
	t.Helper()
	for file := range m.Files {
		if name := change.NameOfTemporary(path.Base(file)); name != "" && !slices.Contains(foreignSnapshots, path.Base(file)) {
			t.Errorf("%s is left", file)
		}
	}
}

// Wherever a save is killed, interrupted or fails, each snapshot is complete, and the next save keeps as
// many as it should.
func TestSaveResumesAtEveryCrashPoint(t *testing.T) {
	for name, s := range saveSubjects() {
		toDir := !strings.HasSuffix(name, "file")
		whole := s.newRun(s.machine(t))
		out := whole.mustSucceed(t)
		checkSaved(t, whole.machine, 2)
		if toDir {
			checkNothingTemporary(t, whole.machine)
		}
		check := func(t *testing.T, r run) {
			checkSaved(t, r.machine, 3)
			r.rerun().mustSucceed(t)
			checkSaved(t, r.machine, 2)
			if toDir {
				checkNothingTemporary(t, r.machine)
			}
		}
		forEachFault(len(out.did), func(at *fault.World) {
			for _, at.Crash = range []bool{false, true} {
				how := map[bool]string{false: "fails ", true: "killed "}[at.Crash]
				again := &fault.World{At: at.At, After: at.After, Crash: at.Crash}
				t.Run(name+" "+how+faultName(at), func(t *testing.T) {
					t.Parallel()
					r := s.newRun(s.machine(t))
					r.fault = again
					if first := r.execute(t); !first.crashed && !errors.Is(first.err, fault.ErrInjected) {
						t.Fatalf("the run did not get that far: %v", first.err)
					}
					check(t, r)
				})
			}
		})
		for at := range out.did {
			r := s.newRun(s.machine(t))
			r.stop = at + 1
			if first := r.execute(t); first.err != nil && !errors.Is(first.err, errInterrupted) {
				t.Errorf("%s interrupted at change %d: %v", name, at, first.err)
			}
			check(t, r)
		}
	}
}

// A dry run tells what a save does, and does nothing.
func TestSaveDryRun(t *testing.T) {
	for name, s := range saveSubjects() {
		t.Run(name, func(t *testing.T) {
			r := s.newRun(s.machine(t))
			if strings.HasSuffix(name, "file") {
				checkDryRun(t, r)
				return
			}
			before := r.machine.Snapshot() // the name of the file has the time
			seen := r.asDryRun(t).mustSucceed(t)
			removeDryRunFiles(r.machine)
			if diff := diffLines(before, r.machine.Snapshot()); diff != "" {
				t.Errorf("the dry run changed the machine:\n%s", diff)
			}
			if announced, done := len(announcedChanges(seen)), len(doneChanges(r.mustSucceed(t))); announced != done {
				t.Errorf("%d changes are announced, and %d are made", announced, done)
			}
		})
	}
}

// Whichever read of a save fails, no complete snapshot is lost, and what it leaves is complete.
func TestSaveOutlastsFailedReads(t *testing.T) {
	for name, s := range saveSubjects() {
		// run makes one read of the phases fail, counted from 0, and returns the number of them.
		run := func(at int, failure error) (outcome, *fake.World, int) {
			r, reads, before := s.newRun(s.machine(t)), &fault.Reads{At: -1, Err: failure}, 0
			r.observe = func(w world.World) world.World { reads.World = w; return reads }
			r.setUp = func(t testing.TB, e *engine.Env) error {
				err := setUpEtcdData(t, e)
				if before = reads.Count(); at >= 0 {
					reads.At = before + at
				}
				return err
			}
			return r.execute(t), r.machine, reads.Count() - before
		}
		healthy, _, count := run(-1, nil)
		if healthy.err != nil || count < 5 {
			t.Fatalf("%d reads were seen, %v", count, healthy.err)
		}
		for at := range count {
			for what, failure := range map[string]error{"an error": fault.ErrInjected, "not found": notFoundError{}} {
				out, machine, _ := run(at, failure)
				checkSaved(t, machine, 3)
				if t.Failed() {
					t.Fatalf("%s: read %d returns %s, and the run %v", name, at, what, out.err)
				}
			}
		}
	}
}

// A snapshot that is saved while etcd has no quorum replaces none.
func TestSaveWithoutQuorumRemovesNothing(t *testing.T) {
	s := saveSubject(snapshots.Options{Keep: 2})
	r := s.newRun(s.machine(t))
	r.machine.UnreachableMembers = []uint64{2, 3}
	r.mustSucceed(t)
	checkSaved(t, r.machine, 3)
	if n := len(ownSnapshots(r.machine)); n != 5 {
		t.Errorf("%d files are left", n)
	}
	list, err := snapshots.List(t.Context(), r.machine, node.DefaultPaths().Snapshots())
	if err != nil || len(list) != 6 { // and one of another cluster
		t.Errorf("listed are %+v, %v", list, err)
	}
}
