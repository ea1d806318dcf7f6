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

// The lock leaves nothing behind, and still keeps every second run out: one that opened the file
// before its holder removed it included.
func TestTheLockIsRemovedByItsHolder(t *testing.T) {
	path := filepath.Join(folder(t), "run", "kubeadm.lock")
	first, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second run gets %v", err)
	}
	if err := releaseLock(first, path); err != nil {
		t.Fatal(err)
	}
	gone(t, path)
	var holders, most, taken atomic.Int32
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 50 {
				f, err := takeLock(path)
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
		t.Errorf("%d held the lock at once, and it was taken %d times", most.Load(), taken.Load())
	}
	gone(t, path)
}

// A lock on a file that is no longer at its path would keep nobody out.
func TestARunThatWaitsForTheLockTakesTheOneAtThePath(t *testing.T) {
	path := filepath.Join(folder(t), "kubeadm.lock")
	first, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() {
		if err := releaseLock(first, path); err != nil {
			t.Error(err)
		}
	})
	second, err := takeLock(path) // has opened the file before it is removed
	if err != nil {
		t.Fatal(err)
	}
	if !isFile(second, path) {
		t.Error("the lock is on a file that was removed")
	}
	if err := releaseLock(second, path); err != nil {
		t.Fatal(err)
	}
	gone(t, path)
}

// A file that took the place of the lock is another run's.
func TestAForeignLockFileStays(t *testing.T) {
	path := filepath.Join(folder(t), "kubeadm.lock")
	first, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := releaseLock(first, path); err != nil {
		t.Fatal(err)
	}
	if _, err := takeLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a third run gets %v", err)
	}
	if err := releaseLock(second, path); err != nil {
		t.Fatal(err)
	}
	gone(t, path)
}

// A file of a journal that is written anew keeps to root, and is added to as before.
func TestAJournalIsReplacedAsAWhole(t *testing.T) {
	s := &Store{dir: filepath.Join(folder(t), "tmp", "journal")}
	for _, step := range []struct {
		do   func(string, []byte) error
		text string
		want string
	}{{s.Append, "one\n", "one\n"}, {s.Append, "two\n", "one\ntwo\n"}, {s.Replace, "both\n", "both\n"}, {s.Append, "three\n", "both\nthree\n"}} {
		if err := step.do("entries", []byte(step.text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load("entries"); err != nil || string(got) != step.want {
			t.Fatalf("it holds %q, want %q (%v)", got, step.want, err)
		}
		info, err := os.Stat(filepath.Join(s.dir, "entries"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v (%v)", info.Mode(), err)
		}
	}
}
