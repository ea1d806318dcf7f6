//go:build linux

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
)

func TestFullDisk(t *testing.T) {
	dir := newTempDir(t)
	mountTmpfs(t, dir, "size=16k")
	name := writeTestFile(t, "old", dir, "admin.conf")
	big := change.WriteFile{Path: name, Data: make([]byte, 1<<16), Mode: 0o600}
	wantDoError(t, big, "no space left on "+dir+":")
	if err := (Machine{}).Do(t.Context(), big); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want an error that is ENOSPC", err)
	}
	wantContent(t, name, "old")
	inside, err := os.ReadDir(dir)
	if err != nil || len(inside) != 1 {
		t.Errorf("temporary files: %v, %v", inside, err)
	}
	big.Data = []byte("new")
	mustDo(t, big)
	wantContent(t, name, "new")
}

// The error of a pair on a full disk names the disk once.
func TestKeyPairOnFullDisk(t *testing.T) {
	dir := newTempDir(t)
	mountTmpfs(t, dir, "size=8k")
	err := Machine{}.Do(t.Context(), change.WriteKeyPair{
		Key:  change.WriteFile{Path: filepath.Join(dir, "key"), Data: make([]byte, 1<<14), Mode: 0o600},
		Cert: change.WriteFile{Path: filepath.Join(dir, "cert"), Data: []byte("cert"), Mode: 0o644},
	})
	if !errors.Is(err, unix.ENOSPC) || strings.Count(err.Error(), "no space left on "+dir) != 1 {
		t.Errorf("got %v", err)
	}
	if inside, err := os.ReadDir(dir); err != nil || len(inside) > 0 {
		t.Errorf("left are %v, %v", inside, err)
	}
}

// The hint for a directory that is mounted read-only on itself names the directory.
func TestReadOnlyBindMount(t *testing.T) {
	dir := newTempDir(t)
	bindMount(t, dir, dir)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	err := Machine{}.Do(t.Context(),
		change.WriteFile{Path: filepath.Join(dir, "a", "admin.conf"), Mode: 0o600})
	hint := "make it writable, for example: mount -o remount,rw " + dir
	if hints := problem.Hints(err); !slices.Equal(hints, []string{hint}) {
		t.Errorf("%v: got the hints %q, want %q", err, hints, hint)
	}
}

func TestWriteThroughSymlink(t *testing.T) {
	dir := newTempDir(t)
	end := writeTestFile(t, "old", dir, "real", "file")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real/file", link); err != nil {
		t.Fatal(err)
	}
	mustDo(t, change.WriteFile{Path: link, Data: []byte("new"), Mode: 0o600})
	wantContent(t, end, "new")
	if to, err := os.Readlink(link); err != nil || to != "real/file" {
		t.Errorf("the link is now %q, %v", to, err)
	}
	info, err := Machine{}.ReadDir(t.Context(), dir)
	if err != nil || len(info) != 2 || info[0].Mode.Type() != fs.ModeSymlink ||
		!info[1].Mode.IsDir() {
		t.Errorf("got %+v and %v, want one link and one directory", info, err)
	}
	if err := os.Remove(end); err != nil {
		t.Fatal(err)
	}
	mustDo(t, change.WriteFile{Path: link, Data: []byte("created"), Mode: 0o600})
	wantContent(t, end, "created")
	if err := os.RemoveAll(filepath.Dir(end)); err != nil {
		t.Fatal(err)
	}
	wantDoError(t, change.WriteFile{Path: link, Mode: 0o600},
		"a symbolic link points to the directory "+filepath.Dir(end))
	wantAbsent(t, filepath.Dir(end))
}

func TestTemporaryFilesAreRemovedByResumedRunOnly(t *testing.T) {
	dir := newTempDir(t)
	const random = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	left := writeTestFile(t, "half a secr", dir, change.TemporaryName("admin.conf", random))
	others := []string{
		writeTestFile(t, "x", dir, ".admin.conf"), writeTestFile(t, "x", dir, ".admin.conf1"),
		writeTestFile(t, "x", dir, ".admin.conf20260901120000123"),
		writeTestFile(t, "x", dir, ".admin.conf.kubeadm-2026"),
		writeTestFile(t, "x", dir, "admin.conf.kubeadm-"+random),
		writeTestFile(t, "x", dir, ".kubelet.conf.kubeadm-"+random),
		writeTestFile(t, "x", dir, ".admin.conf.kubeadm-"+strings.ToLower(random)),
	}
	write := change.WriteFile{Path: filepath.Join(dir, "admin.conf"), Data: []byte("new"),
		Mode: 0o600}
	mustDo(t, write)
	wantContent(t, left, "half a secr")
	write.RemoveTemporary = true
	mustDo(t, write)
	wantAbsent(t, left)
	for _, o := range others {
		wantContent(t, o, "x")
	}
}

func TestWriteKeepsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	name := writeTestFile(t, "old", newTempDir(t), "file")
	if err := errors.Join(os.Chown(name, 1234, 4321), os.Chmod(name, 0o604)); err != nil {
		t.Fatal(err)
	}
	mustDo(t, change.WriteFile{Path: name, Data: []byte("new"), Mode: 0o600})
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 1234 || s.Gid != 4321 || info.Mode() != 0o604 {
		t.Errorf("now owned by %d:%d with %v", s.Uid, s.Gid, info.Mode())
	}
}

func TestModesIgnoreUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := newTempDir(t)
	mustDo(t, change.WriteFile{Path: filepath.Join(dir, "a", "ca.crt"), Mode: 0o644})
	mustDo(t, change.MakeDir{Path: filepath.Join(dir, "b", "c"), Mode: 0o750})
	for path, want := range map[string]fs.FileMode{"a": 0o755, "a/ca.crt": 0o644, "b": 0o750,
		"b/c": 0o750} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v and %v, want %v", path, info.Mode(), err, want)
		}
	}
}

func TestErrorsDoNotNameTemporaryFile(t *testing.T) {
	dir := newTempDir(t)
	mountTmpfs(t, dir, "")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "admin.conf")
	wantDoError(t, change.WriteFile{Path: name, Mode: 0o600}, name+":", "read-only")
	err := Machine{}.Do(t.Context(), change.WriteFile{Path: name, Mode: 0o600})
	if strings.Contains(err.Error(), "/.admin.conf") {
		t.Errorf("got %v", err)
	}
}
