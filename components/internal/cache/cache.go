// Package cache stores built parts outside of the tree, so that nothing is built twice. A finished
// part is a directory that appears atomically; readers never see an unfinished one.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Part is an entry of the cache: a directory of files built from known inputs.
type Part struct {
	Name    string                                      // the directory in the cache
	Version string                                      // for messages; may be empty
	Key     Key                                         // digest of the inputs
	Build   func(ctx context.Context, dir string) error // fills an empty directory
}

// String is the part's name in progress lines.
func (p Part) String() string {
	if p.Version == "" {
		return p.Name
	}
	return p.Name + " " + p.Version
}

// Store is a cache in a directory of its own. Any number of programs may use the same directory at once.
type Store struct {
	Dir string
	Say func(format string, args ...any) // one line of progress
}

// DefaultDir is $KUBEADM_CACHE/components, by default in the user's cache directory.
func DefaultDir() (string, error) {
	base := os.Getenv("KUBEADM_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache directory: %w; set KUBEADM_CACHE", err)
		}
		base = filepath.Join(user, "kubeadm")
	}
	return filepath.Abs(filepath.Join(base, "components"))
}

// Path is where the part is once it is finished.
func (s *Store) Path(p Part) string {
	return filepath.Join(s.Dir, p.Name, string(p.Key))
}

// Build builds the part unless the cache has it. If two programs need the same part, one builds it
// and the other waits. A build that fails or is killed leaves no part.
func (s *Store) Build(ctx context.Context, p Part) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done, err := s.isBuilt(p)
	if err != nil {
		return err
	}
	if done {
		s.Say("%s: cached", p)
		return nil
	}
	unlock, err := s.lock(ctx, p)
	if err != nil {
		return fmt.Errorf("locking %s: %w", p, err)
	}
	defer unlock()
	if done, err = s.isBuilt(p); err != nil || done {
		return err
	}
	s.Say("building %s ...", p)
	start := time.Now()
	defer s.logEveryMinute(p, start)()
	if err := s.buildPart(ctx, p); err != nil {
		return fmt.Errorf("building %s: %w", p, err)
	}
	s.Say("%s: built in %s", p, elapsedSince(start))
	return nil
}

func (s *Store) isBuilt(p Part) (bool, error) {
	_, err := os.Stat(s.Path(p))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// buildPart builds into a sibling of the final directory and renames it when everything is written
// to disk.
func (s *Store) buildPart(ctx context.Context, p Part) error {
	path := s.Path(p)
	if err := removeLeftovers(path); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), string(p.Key)+".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := p.Build(ctx, dir); err != nil {
		return err
	}
	if err := syncDisk(dir); err != nil {
		return err
	}
	return os.Rename(dir, path)
}

// removeLeftovers deletes the directories of killed builds of the same key. The caller holds the
// key's lock.
func removeLeftovers(path string) error {
	old, err := filepath.Glob(path + ".tmp-*")
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("writing %s to disk: %w", dir, err)
	}
	return nil
}

// lock locks the part for this process. The kernel releases the lock when the process ends in any
// way.
func (s *Store) lock(ctx context.Context, p Part) (unlock func(), err error) {
	path := s.Path(p) + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, err
		}
		if !said {
			s.Say("%s: another program is building it, waiting", p)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// logEveryMinute logs once a minute that a build is running, until stop is called.
func (s *Store) logEveryMinute(p Part, start time.Time) (stop func()) {
	ticker, done := time.NewTicker(time.Minute), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				s.Say("%s: still building after %s", p, elapsedSince(start))
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

func elapsedSince(start time.Time) time.Duration {
	return time.Since(start).Round(100 * time.Millisecond)
}
