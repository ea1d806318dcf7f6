package linux

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Random returns a stream of cryptographic randomness. Streams are independent of each other and
// safe for concurrent use.
func Random(string) io.Reader { return rand.Reader }

// Chroot changes the root directory and the working directory of this process to dir.
func Chroot(dir string) error {
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("changing the root directory to %s: %w", dir, err)
	}
	return os.Chdir("/")
}
