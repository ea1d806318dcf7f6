//go:build linux

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

func TestReadPrivate(t *testing.T) {
	newKey := func(t *testing.T) string {
		t.Helper()
		name := filepath.Join(newTempDir(t), "renewal", "admin.conf.key")
		mustDo(t, change.MakeDir{Path: filepath.Dir(name), Mode: 0o700})
		mustDo(t, change.WriteFile{Path: name, Data: []byte("key"), Mode: 0o600})
		return name
	}
	chmod := func(t *testing.T, name string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	key := newKey(t)
	if got, err := (Machine{}).ReadPrivate(t.Context(), key); err != nil || string(got) != "key" {
		t.Fatalf("got %q, %v", got, err)
	}
	linked := makeSymlink(t, filepath.Dir(key), filepath.Join(newTempDir(t), "link"))
	if got, err := (Machine{}).ReadPrivate(t.Context(),
		linked+"/admin.conf.key"); err != nil || string(got) != "key" {
		t.Errorf("by a link to the directory: %q, %v", got, err)
	}
	_, err := Machine{}.ReadPrivate(t.Context(), filepath.Dir(key)+"/apiserver.key")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, key string)
		want    string
	}{
		"a file of another user": {func(t *testing.T, key string) { chownToOther(t, key) },
			"/admin.conf.key belongs to another user (uid 4242)"},
		"a directory of another user": {func(t *testing.T, key string) {
			chownToOther(t, filepath.Dir(key))
		}, "/renewal belongs to another user (uid 4242)"},
		"a file that others can read": {func(t *testing.T, key string) { chmod(t, key, 0o640) },
			"/admin.conf.key can be read by other users (mode 0640)"},
		"a file that others can change": {func(t *testing.T, key string) { chmod(t, key, 0o620) },
			"/admin.conf.key can be changed by other users (mode 0620)"},
		"a directory like /tmp": {func(t *testing.T, key string) {
			chmod(t, filepath.Dir(key), fs.ModeSticky|0o777)
		}, "/renewal can be changed by other users (mode 0777)"},
		"a symbolic link": {func(t *testing.T, key string) {
			if err := os.Rename(key, key+".other"); err != nil {
				t.Fatal(err)
			}
			makeSymlink(t, key+".other", key)
		}, "/admin.conf.key is a symbolic link"},
		"a FIFO": {func(t *testing.T, key string) {
			if err := errors.Join(os.Remove(key), unix.Mkfifo(key, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "/admin.conf.key is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			key := newKey(t)
			c.prepare(t, key)
			got, err := Machine{}.ReadPrivate(t.Context(), key)
			if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("got %q, %v, want %s", got, err, c.want)
			}
		})
	}
}
