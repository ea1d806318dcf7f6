package cache

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func store(t *testing.T, dir string) *Store {
	return &Store{Dir: dir, Say: t.Logf}
}

func part(build func(ctx context.Context, dir string) error) Part {
	return Part{Name: "thing", Key: NewKey("v1"), Build: build}
}

func writeDone(_ context.Context, dir string) error {
	return os.WriteFile(filepath.Join(dir, "done"), []byte("yes"), 0o644)
}

// TestKilledBuildIsNotFinished kills a build while it runs: the next one cleans up and starts from
// the beginning.
func TestKilledBuildIsNotFinished(t *testing.T) {
	if dir := os.Getenv("TEST_BUILD_FOREVER"); dir != "" {
		p := part(func(ctx context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
		t.Fatal(store(t, dir).Build(t.Context(), p))
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBuildIsNotFinished$")
	cmd.Env = append(os.Environ(), "TEST_BUILD_FOREVER="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "thing", "*", "half")
	for start := time.Now(); len(glob(t, half)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the build to be killed does not start")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	s, p := store(t, dir), part(writeDone)
	if done, err := s.isBuilt(p); err != nil || done {
		t.Fatalf("a killed build counts as finished: %v, %v", done, err)
	}
	if err := s.Build(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.Path(p), "done")); err != nil {
		t.Error(err)
	}
	if left := glob(t, half); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	s, broken := store(t, t.TempDir()), errors.New("broken")
	p := part(func(ctx context.Context, dir string) error { return errors.Join(writeDone(ctx, dir), broken) })
	if err := s.Build(t.Context(), p); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if left := glob(t, filepath.Join(s.Dir, "thing", "*.tmp-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	p.Build = writeDone
	if err := s.Build(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestTwoBuildsAtOnceBuildOnce(t *testing.T) {
	dir := t.TempDir()
	var builds atomic.Int32
	p := part(func(ctx context.Context, dir string) error {
		builds.Add(1)
		time.Sleep(50 * time.Millisecond)
		return writeDone(ctx, dir)
	})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := store(t, dir).Build(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestWaitingForAnotherBuildCanBeInterrupted(t *testing.T) {
	s, p := store(t, t.TempDir()), part(writeDone)
	unlock, err := s.lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Build(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestKeyDependsOnInputs(t *testing.T) {
	key, again := NewKey("a", "b"), NewKey([]string{"a", "b"}...)
	if key != again {
		t.Error("equal inputs, different keys")
	}
	for _, other := range []Key{NewKey("ab"), NewKey("b", "a"), NewKey("a", "b", ""), NewKey("a", "c")} {
		if other == key {
			t.Error("different inputs, equal keys")
		}
	}
}

func TestSourcesChangeWithNamesAndContents(t *testing.T) {
	digest := func(files map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d, err := Sources(dir, "*.go")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(map[string]string{"a.go": "x"})
	if digest(map[string]string{"a.go": "x", "a_test.go": "y", "notes.md": "z"}) != base {
		t.Error("a file that is not compiled changes the digest")
	}
	for _, files := range []map[string]string{{"a.go": "y"}, {"b.go": "x"}, {"a.go": "x", "b.go": ""}} {
		if digest(files) == base {
			t.Errorf("%v: same digest", files)
		}
	}
	if _, err := Sources(t.TempDir(), "*.go"); err == nil {
		t.Error("a pattern without files is accepted")
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
