//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The extended attributes that control access to a file; see xattr(7).
const (
	selinuxXattr = "security.selinux"
	aclXattr     = "system.posix_acl_access"
)

// copyAccessAttributes copies the access control list and the SELinux label of the replaced file
// to the new one; old may be nil. If the policy does not allow setting the label, the policy's
// default label stays.
func copyAccessAttributes(f *os.File, old *entry) error {
	if old == nil {
		return nil
	}
	path := fmt.Sprintf("/proc/self/fd/%d", old.f.Fd()) // stays valid if the file is renamed
	acl, err := readXattr(path, aclXattr)
	if err == nil && acl != nil {
		err = unix.Fsetxattr(int(f.Fd()), aclXattr, acl, 0)
	}
	if err != nil {
		return &os.PathError{Op: "keep the access control list", Path: f.Name(), Err: err}
	}
	if label, err := readXattr(path, selinuxXattr); err == nil && label != nil {
		_ = unix.Fsetxattr(int(f.Fd()), selinuxXattr, label, 0)
	}
	return nil
}

// readXattr returns nil if the file or the attribute does not exist, or if the file system has no
// attributes.
func readXattr(path, name string) ([]byte, error) {
	value := make([]byte, 64<<10) // the maximum
	n, err := unix.Getxattr(path, name, value)
	switch {
	case err == nil:
		return value[:n], nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
		return nil, nil
	}
	return nil, err
}
