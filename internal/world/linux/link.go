//go:build linux

package linux

import (
	"crypto/rand"
	"fmt"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// makeLink creates a link under a temporary name and renames it.
func makeLink(c change.MakeLink) error {
	p, err := resolve(c.Path, 0o755, false)
	if err != nil {
		return explainWriteError(c.Path, err)
	}
	defer p.close()
	var old unix.Stat_t
	dir := int(p.dir.Fd())
	if err := unix.Fstatat(dir, p.name, &old, unix.AT_SYMLINK_NOFOLLOW); err == nil &&
		old.Mode&unix.S_IFMT != unix.S_IFLNK && old.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s exists, but it is neither a link nor a regular file", p.path)
	}
	name := change.TemporaryName(p.name, rand.Text())
	if err := unix.Symlinkat(c.To, dir, name); err != nil {
		return explainWriteError(p.path, p.pathError("create", err))
	}
	if err := unix.Renameat(dir, name, dir, p.name); err != nil {
		_ = unix.Unlinkat(dir, name, 0) // the first error matters
		return explainWriteError(p.path, p.pathError("rename", err))
	}
	return syncDir(p.dir)
}
