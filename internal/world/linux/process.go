//go:build linux

package linux

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Chroot changes the root directory and the working directory of this process to dir.
func Chroot(dir string) error {
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("changing the root directory to %s: %w", dir, err)
	}
	return os.Chdir("/")
}
