package staticpod_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

func TestNewestEtcdSnapshotsAreKept(t *testing.T) {
	w := newMachine(t)
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	var saved []string
	for range 5 {
		file, err := staticpod.SaveEtcdSnapshot(t.Context(), e, newReplacement().Node, state.Etcd{})
		if err != nil || w.Files[file].Mode != 0o600 ||
			!strings.HasPrefix(file, "/etc/kubernetes/tmp/kubeadm-backup-etcd-2026-") {
			t.Fatalf("%s has mode %v: %v", file, w.Files[file].Mode, err)
		}
		saved = append(saved, strings.TrimPrefix(file, "/etc/kubernetes/tmp/"))
	}
	if got := listTemporaryFiles(w); !slices.Equal(got, saved[2:]) {
		t.Errorf("left are %v of %v", got, saved)
	}
}

// A second run within the same second gets another directory.
func TestBackupDirIsNew(t *testing.T) {
	w := newMachine(t)
	now := w.Now()
	w.Clock = newSecondsClock(now)
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	first, err := staticpod.BackupDir(t.Context(), e, "/tmp", staticpod.ManifestBackup)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, w, path.Join(first, "etcd.yaml"), "x")
	w.Clock = newSecondsClock(now)
	second, err := staticpod.BackupDir(t.Context(), e, "/tmp", staticpod.ManifestBackup)
	if err != nil || first == second {
		t.Errorf("%s, then %s: %v", first, second, err)
	}
}

// A clock that was set back does not make the newest backup the oldest one.
func TestClockSetBackKeepsNewestSnapshot(t *testing.T) {
	w := newMachine(t)
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	now := w.Now()
	w.Clock = newSecondsClock(now.AddDate(10, 0, 0))
	var saved []string
	for range 4 {
		if len(saved) == 3 {
			w.Clock = newSecondsClock(now)
		}
		file, err := staticpod.SaveEtcdSnapshot(t.Context(), e, newReplacement().Node, state.Etcd{})
		if err != nil {
			t.Fatal(err)
		}
		saved = append(saved, strings.TrimPrefix(file, "/etc/kubernetes/tmp/"))
	}
	if got := listTemporaryFiles(w); !slices.Equal(got, saved[1:]) {
		t.Errorf("left are %v of %v", got, saved)
	}
}
