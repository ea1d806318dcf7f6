package linux

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The extended attributes that say who may do what with a file, besides its mode and owner; see xattr(7).
const (
	seLabel    = "security.selinux"
	accessList = "system.posix_acl_access"
)

// keepAccess gives a new file the access control list and the label of the one that it replaces;
// nil for none. Where a policy of SELinux does not let us label files, it decides on the label
// itself.
func keepAccess(f *os.File, old *entry) error {
	if old == nil {
		return nil
	}
	list, err := attribute(old.proc(), accessList)
	if err == nil && list != nil {
		err = unix.Fsetxattr(int(f.Fd()), accessList, list, 0)
	}
	if err != nil {
		return &os.PathError{Op: "keep the access control list", Path: f.Name(), Err: err}
	}
	if label, err := attribute(old.proc(), seLabel); err == nil && label != nil {
		_ = unix.Fsetxattr(int(f.Fd()), seLabel, label, 0)
	}
	return nil
}

// attribute is nil where there is no file, no such attribute of it, or where the file system knows none.
func attribute(path, name string) ([]byte, error) {
	value := make([]byte, 64<<10) // no attribute is larger
	n, err := unix.Getxattr(path, name, value)
	switch {
	case err == nil:
		return value[:n], nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
		return nil, nil
	}
	return nil, err
}
