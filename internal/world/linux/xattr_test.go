//go:build linux

package linux

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// Access control list and SELinux label of a file survive a write.
func TestWriteKeepsAccessAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.conf")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	entry := func(tag, allowed byte, id ...byte) []byte {
		return append([]byte{tag, 0, allowed, 0}, append(id, 0xff, 0xff, 0xff, 0xff)[:4]...)
	}
	want := map[string][]byte{
		selinuxXattr: []byte("system_u:object_r:passwd_file_t:s0"),
		// version 2: owner, user 1000, group, mask, others
		aclXattr: bytes.Join([][]byte{{2, 0, 0, 0},
			entry(1, 6), entry(2, 4, 0xe8, 3, 0, 0), entry(4, 0), entry(16, 4), entry(32, 0)}, nil),
	}
	for name, value := range want {
		if err := unix.Setxattr(path, name, value, 0); errors.Is(err, unix.ENOTSUP) ||
			errors.Is(err, unix.EPERM) {
			t.Skipf("%s cannot be set here: %v", name, err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for text, c := range map[string]change.WriteFile{"new": {Mode: 0o600}, "newer": {Mode: 0o600}, // the mask is the group's mode
		"placed": {Mode: 0o640, Secret: true, Placement: &change.Placement{UID: os.Getuid(), GID: os.Getgid(), DirMode: 0o700}}} {
		c.Path, c.Data = path, []byte(text)
		if err := (Machine{}).Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if got, err := readXattr(path, name); err != nil || !bytes.Equal(got, value) {
				t.Errorf("after a write of %q %s is %q, %v", text, name, got, err)
			}
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// another mode is meant for others
	if err := (Machine{}).Do(t.Context(), change.WriteFile{Path: path, Data: []byte("placed"), Mode: 0o600, Secret: true,
		Placement: &change.Placement{UID: os.Getuid(), GID: os.Getgid(), DirMode: 0o700}}); err != nil {
		t.Fatal(err)
	}
	if acl, err := readXattr(path, aclXattr); err != nil || acl != nil {
		t.Errorf("a file with another mode keeps %q, %v", acl, err)
	}
}
