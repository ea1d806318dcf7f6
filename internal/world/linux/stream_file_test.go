//go:build linux

package linux

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubeadm/internal/change"
)

func TestStreamedFileIsCreatedAtomically(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	name := filepath.Join(dir, "file")
	err := Machine{}.WriteStream(name, func(to io.Writer) error {
		for range 3 {
			if _, err := io.WriteString(to, "part"); err != nil {
				return err
			}
			if _, err := os.Stat(name); err == nil {
				t.Error("the file exists before it is complete")
			}
		}
		return nil
	}, unchecked)
	data, unread := os.ReadFile(name)
	if err != nil || unread != nil || string(data) != "partpartpart" {
		t.Fatalf("%q: %v, %v", data, err, unread)
	}
	file, err := os.Stat(name)
	if err != nil || file.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", file.Mode(), err)
	}
	if above, err := os.Stat(dir); err != nil || above.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", above.Mode(), err)
	}
}

func TestFailedStreamKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	killed := filepath.Join(dir, change.TemporaryName("file", strings.Repeat("A", 26)))
	for _, path := range []string{name, killed} {
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	err := Machine{}.WriteStream(name, func(to io.Writer) error {
		_, _ = io.WriteString(to, "new")
		return broken
	}, unchecked)
	if data, unread := os.ReadFile(name); !errors.Is(err, broken) || unread != nil ||
		string(data) != "old" {
		t.Errorf("%q: %v, %v", data, err, unread)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if err := (Machine{}).WriteStream(dir, func(io.Writer) error { return nil }, unchecked); err == nil {
		t.Error("a directory of that name: want an error")
	}
}

func TestFreeSpaceOfMissingPath(t *testing.T) {
	dir := t.TempDir()
	here, err := Machine{}.FreeSpace(dir)
	if err != nil || here == 0 {
		t.Fatalf("%d, %v", here, err)
	}
	there, err := Machine{}.FreeSpace(filepath.Join(dir, "a", "b"))
	if err != nil || there == 0 {
		t.Errorf("%d, %v", there, err)
	}
	if _, err := (Machine{}).FreeSpace("/proc/self/nothing\x00"); err == nil {
		t.Error("an invalid path: want an error")
	}
}

// unchecked accepts what was written.
func unchecked(string) error { return nil }

// A file that does not pass its check does not get its name.
func TestWriteStreamChecks(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	damaged := errors.New("damaged")
	err := Machine{}.WriteStream(name, func(to io.Writer) error {
		_, err := io.WriteString(to, "text")
		return err
	}, func(path string) error {
		if data, err := os.ReadFile(path); err != nil || string(data) != "text" {
			t.Errorf("the file to check has %q, %v", data, err)
		}
		return damaged
	})
	if left, _ := os.ReadDir(dir); !errors.Is(err, damaged) || len(left) > 0 {
		t.Errorf("got %v; left are %v", err, left)
	}
}
