package laws

import (
	"path"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

// cutInWrite leaves what a kill during a change leaves of the files that it writes. It reports whether it writes any.
func (k killedRun) cutInWrite(t testing.TB, c change.Change) bool {
	t.Helper()
	var files []string
	switch c := c.(type) {
	case change.WriteFile:
		files = []string{c.Path}
	case change.WriteKeyPair:
		files = []string{c.Key.Path, c.Cert.Path}
	}
	for _, file := range files {
		name := change.TemporaryName(path.Base(file), "ABCDEFGHIJKLMNOPQRSTUVWX27")
		err := k.machine.PutFile(path.Join(path.Dir(file), name), memory.File{Data: []byte("partial"), Mode: 0o600})
		if err != nil {
			t.Fatal(err)
		}
	}
	return len(files) > 0
}

// next is the change during which the run was killed; ok is false after the last one.
func (k killedRun) next(whole []change.Change) (c change.Change, ok bool) {
	if len(k.did) >= len(whole) {
		return nil, false
	}
	return whole[len(k.did)], true
}

// rerunUnrecorded is rerun for a command that keeps no journal on the disk.
func (r run) rerunUnrecorded() run {
	r = r.rerun()
	r.store = &journal.Memory{}
	return r
}

func checkNoTemporary(t testing.TB, w *fake.World) {
	t.Helper()
	for name := range w.Files {
		if change.NameOfTemporary(path.Base(name)) != "" {
			t.Errorf("%s is left", name)
		}
	}
}

// temporarySubjects are commands without a journal: they find out what a killed run has left.
func temporarySubjects() []subject {
	all := append(subjects(), changeNodeName(newNamedMachine, newName))
	return slices.DeleteFunc(all, func(s subject) bool { return !s.repeats })
}

// Wherever a command is killed in a write, the same command removes the temporary file, also without a journal that names it.
func TestResumedRunLeavesNoTemporaryFile(t *testing.T) {
	for _, s := range temporarySubjects() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			whole, all := s.newRun(s.machine(t)).killedEverywhere(t)
			cuts := 0
			for _, r := range all {
				c, ok := r.next(whole.did)
				if !ok || !r.cutInWrite(t, c) {
					continue
				}
				cuts++
				if out := r.rerunUnrecorded().execute(t); out.err != nil {
					t.Errorf("killed in %s: %v", c, out.err)
				}
				checkNoTemporary(t, r.machine)
			}
			if cuts == 0 && !testing.Short() {
				t.Error("no run was killed in a write")
			}
		})
	}
}

// A run that restores the manifests of an interrupted move is killed in the write. The next one finds the manifest
// as it wants it, and never writes it again.
func TestKilledRestoreLeavesNoTemporaryFile(t *testing.T) {
	s, back := changeAddress(newMovingMachine, newAddress), changeAddress(newMovingMachine, presentAddress)
	half := s.newRun(s.machine(t))
	crashAt(half.machine, newAddress)
	half.kills = &killPoints{of: half}
	if out := half.execute(t); out.err == nil {
		t.Fatal("the move succeeded")
	}
	restores := 0
	for _, begun := range half.kills.all {
		if !strings.Contains(string(begun.machine.Files["/etc/kubernetes/manifests/kube-apiserver.yaml"].Data), newAddress) {
			continue
		}
		again := begun.rerunUnrecorded()
		again.subject = back
		whole, restoring := again.killedEverywhere(t)
		for _, r := range restoring {
			c, ok := r.next(whole.did)
			if !ok || !strings.HasPrefix(c.Target(), change.FileTarget("/etc/kubernetes/manifests/")) || !r.cutInWrite(t, c) {
				continue
			}
			restores++
			last := r.rerunUnrecorded()
			last.mustSucceed(t)
			checkNoTemporary(t, last.machine)
			checkAddress(t, last.machine, presentAddress, newAddress)
		}
		break
	}
	if restores == 0 {
		t.Error("no restore was killed in a write")
	}
}
