package linux

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Random is a named stream of secret randomness of the operating system. Streams do not
// depend on each other, and each may be read by many at once.
func Random(string) io.Reader { return rand.Reader }

// Chroot makes dir the root of the file system for this process and enters it.
func Chroot(dir string) error {
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("making %s the root of the file system: %w", dir, err)
	}
	return os.Chdir("/")
}
