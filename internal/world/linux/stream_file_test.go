//go:build linux

package linux

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

func TestStreamedFileIsCreatedAtomically(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	name := filepath.Join(dir, "file")
	err := Machine{}.WriteStream(name, func(to io.ReadWriteSeeker) error {
		for range 3 {
			if _, err := io.WriteString(to, "part"); err != nil {
				return err
			}
			if _, err := os.Stat(name); err == nil {
				t.Error("the file exists before it is complete")
			}
		}
		return nil
	})
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
	err := Machine{}.WriteStream(name, func(to io.ReadWriteSeeker) error {
		_, _ = io.WriteString(to, "new")
		return broken
	})
	if data, unread := os.ReadFile(name); !errors.Is(err, broken) || unread != nil ||
		string(data) != "old" {
		t.Errorf("%q: %v, %v", data, err, unread)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if err := (Machine{}).WriteStream(dir, func(io.ReadWriteSeeker) error { return nil }); err == nil {
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

// A file that write does not accept, when it reads it again, does not get its name.
func TestWriteStreamVerifies(t *testing.T) {
	dir := t.TempDir()
	damaged := errors.New("damaged")
	err := Machine{}.WriteStream(filepath.Join(dir, "file"), func(f io.ReadWriteSeeker) error {
		if _, err := io.WriteString(f, "text"); err != nil {
			return err
		}
		if data, err := os.ReadFile(Machine{}.OpenedPath(f)); err != nil || string(data) != "text" {
			t.Errorf("the file to check has %q, %v", data, err)
		}
		return damaged
	})
	if left, _ := os.ReadDir(dir); !errors.Is(err, damaged) || len(left) > 0 {
		t.Errorf("got %v; left are %v", err, left)
	}
}

// A file without a name is private, and nothing in its directory shows it.
func TestUnnamedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		err := Machine{}.WithUnnamedFile(filepath.Join(dir, "file"), func(f io.ReadWriteSeeker) error {
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the directory has %v, %v", left, err)
			}
			info, err := os.Stat(Machine{}.OpenedPath(f))
			if err != nil || info.Mode() != 0o600 || info.Size() != 0 {
				t.Errorf("the file: %v, %v", info, err)
			}
			if _, err := io.WriteString(f, "text"); err != nil {
				t.Error(err)
			}
			return want
		})
		if left, _ := os.ReadDir(dir); !errors.Is(err, want) || len(left) > 0 {
			t.Errorf("got %v, want %v; left are %v", err, want, left)
		}
	}
}

// On a full disk the old file stays, and nothing is left of the new one.
func TestStreamOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	mountTmpfs(t, dir, "size=64k")
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	fill := func(f io.ReadWriteSeeker) error {
		_, err := f.Write(make([]byte, 128<<10))
		return err
	}
	for what, err := range map[string]error{
		"stream":  Machine{}.WriteStream(name, fill),
		"unnamed": Machine{}.WithUnnamedFile(name, fill),
		"both": Machine{}.WriteStream(name, func(f io.ReadWriteSeeker) error {
			if _, err := f.Write(make([]byte, 40<<10)); err != nil {
				t.Error(err)
			}
			return Machine{}.WithUnnamedFile(name, fill)
		}),
	} {
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "no space left on "+dir) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	wantContent(t, name, "old")
	if free, err := (Machine{}).FreeSpace(dir); err != nil || free < 56<<10 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
}
