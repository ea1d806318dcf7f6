//go:build linux

package linux

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/world/portable"
)

// newTempDir returns the path of an empty directory without symbolic links.
func newTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeTestFile(t *testing.T, text string, name ...string) string {
	t.Helper()
	path := filepath.Join(name...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustDo(t *testing.T, c change.Change) {
	t.Helper()
	if err := (Machine{}).Do(t.Context(), c); err != nil {
		t.Fatalf("%s: %v", c, err)
	}
}

// wantDoError carries out a change that must fail with an error that contains all texts.
func wantDoError(t *testing.T, c change.Change, says ...string) {
	t.Helper()
	err := (Machine{}).Do(t.Context(), c)
	if err == nil {
		t.Fatalf("%s: want an error", c)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: got %q, want %q in it", c, err, s)
		}
	}
}

// mountTmpfs mounts a tmpfs until the end of the test. Without root privileges it skips the test.
func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // the test may have undone it
}

func bindMount(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skip("mounting needs root")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) }) // the test may have undone it
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s: got %q and %v, want %q", path, got, err, want)
	}
}

func wantAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s exists: %v", path, err)
	}
}

func TestRunProgram(t *testing.T) {
	t.Run("what a failing one said", func(t *testing.T) {
		_, err := portable.Run(t.Context(), "sh", "-c",
			"echo to stdout; echo what is wrong >&2; exit 3")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 ||
			!strings.Contains(err.Error(), "what is wrong") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a child that keeps the pipe", func(t *testing.T) {
		start := time.Now()
		if _, err := portable.Run(t.Context(), "sh", "-c", "sleep 60 & echo started"); err == nil {
			t.Error("want an error: its output has no end")
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestKubeletVersion(t *testing.T) {
	bin := newTempDir(t)
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	for said, want := range map[string]string{
		"Kubernetes v1.37.1":           "v1.37.1",
		"Kubernetes v1.38.0-alpha.1+x": "v1.38.0-alpha.1+x",
		"v1.37.1":                      "",
		"Kubernetes v1.37.1 (dirty)":   "",
		"Kubernetes v1.37":             "",
	} {
		writeTestFile(t, "#!/bin/sh\necho '"+said+"'\n", bin, "kubelet")
		if err := os.Chmod(filepath.Join(bin, "kubelet"), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := Machine{}.KubeletVersion(t.Context())
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q and %v, want %q", said, got, err, want)
		}
	}
}

func TestTail(t *testing.T) {
	path := writeTestFile(t, "one two three", newTempDir(t), "log")
	for limit, want := range map[int64]string{5: "three", 100: "one two three", 0: ""} {
		got, err := Machine{}.Tail(path, limit)
		if err != nil || string(got) != want {
			t.Errorf("%d bytes: got %q and %v, want %q", limit, got, err, want)
		}
	}
}
