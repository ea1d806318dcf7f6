//go:build linux

package linux

import (
	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// rename renames a file or directory, and syncs the directories. It never replaces an existing one.
func rename(c change.Rename) error {
	from, err := resolvePathNoFollow(c.From)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := resolvePathNoFollow(c.To)
	if err != nil {
		return err
	}
	defer to.close()
	if err := unix.Renameat2(int(from.dir.Fd()), from.name, int(to.dir.Fd()), to.name,
		unix.RENAME_NOREPLACE); err != nil {
		return explainWriteError(to.path, to.pathError("rename "+from.path+" to", err))
	}
	if err := syncDir(to.dir); err != nil {
		return err
	}
	return syncDir(from.dir)
}
