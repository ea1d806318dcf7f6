//go:build linux

package linux

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The lock file is removed, and the lock still excludes other runs, including one that opened the
// file before its removal.
func TestLockFileIsRemovedOnRelease(t *testing.T) {
	path := filepath.Join(newTempDir(t), "run", "kubeadm.lock")
	first, err := acquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquireLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second run: %v", err)
	}
	if err := releaseLock(first, path); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, path)
	var holders, most, taken atomic.Int32
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 50 {
				f, err := acquireLock(path)
				if errors.Is(err, ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				if n := holders.Add(1); n > most.Load() {
					most.Store(n)
				}
				holders.Add(-1)
				if err := releaseLock(f, path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	runs.Wait()
	if most.Load() != 1 || taken.Load() < 50 {
		t.Errorf("%d held the lock at the same time, and it was acquired %d times", most.Load(),
			taken.Load())
	}
	wantAbsent(t, path)
}

// A lock on a removed file would exclude no other run.
func TestWaitingRunLocksCurrentFile(t *testing.T) {
	path := filepath.Join(newTempDir(t), "kubeadm.lock")
	first, err := acquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() {
		if err := releaseLock(first, path); err != nil {
			t.Error(err)
		}
	})
	second, err := acquireLock(path) // has opened the file before it is removed
	if err != nil {
		t.Fatal(err)
	}
	if !isSameFile(second, path) {
		t.Error("the lock is on a file that was removed")
	}
	if err := releaseLock(second, path); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, path)
}

// A file that replaced the lock file belongs to another run.
func TestReleaseKeepsReplacedLockFile(t *testing.T) {
	path := filepath.Join(newTempDir(t), "kubeadm.lock")
	first, err := acquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := acquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := releaseLock(first, path); err != nil {
		t.Fatal(err)
	}
	if _, err := acquireLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a third run: %v", err)
	}
	if err := releaseLock(second, path); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, path)
}

// A replaced file of a journal is readable by root only, and Append works as before.
func TestStoreReplace(t *testing.T) {
	s := &Store{dir: filepath.Join(newTempDir(t), "tmp", "journal")}
	for _, step := range []struct {
		do   func(string, []byte) error
		text string
		want string
	}{{s.Append, "one\n", "one\n"}, {s.Append, "two\n", "one\ntwo\n"},
		{s.Replace, "both\n", "both\n"}, {s.Append, "three\n", "both\nthree\n"}} {
		if err := step.do("entries", []byte(step.text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load("entries"); err != nil || string(got) != step.want {
			t.Fatalf("got %q, want %q (%v)", got, step.want, err)
		}
		info, err := os.Stat(filepath.Join(s.dir, "entries"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v (%v)", info.Mode(), err)
		}
	}
}
