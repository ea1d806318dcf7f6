//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of reading a FIFO or a terminal. The writer may be a program that asks for a password
// first.
const (
	writerLimit = 5 * time.Second // until a program opens the FIFO for writing
	quietLimit  = 2 * time.Minute // without a byte
	streamLimit = 16 << 20        // bytes, of a regular file too
	streamPause = 20 * time.Millisecond
)

// readStream reads a file that was opened with O_NONBLOCK to its end.
func readStream(ctx context.Context, f *os.File, fifo bool) ([]byte, error) {
	var all []byte
	started := time.Now()
	last, hadWriter := started, !fifo
	buffer := make([]byte, 64<<10)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
		}
		n, err := readAvailable(f, buffer)
		all = append(all, buffer[:n]...)
		switch {
		case len(all) > streamLimit:
			return nil, fmt.Errorf("reading %s: it is longer than %d MiB", f.Name(),
				streamLimit>>20)
		case n > 0:
			last, hadWriter = time.Now(), true
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			hadWriter = true // a FIFO without a writer is at its end
			if time.Since(last) > quietLimit {
				return nil, fmt.Errorf("reading %s: nothing was written to it within %s", f.Name(),
					quietLimit)
			}
			time.Sleep(streamPause)
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: err}
		case hadWriter:
			return all, nil
		default:
			if time.Since(started) > writerLimit {
				return nil, fmt.Errorf(
					"reading %s: it is a FIFO, and no program has opened it for writing within %s",
					f.Name(), writerLimit)
			}
			time.Sleep(streamPause)
		}
	}
}

// readAvailable is one read(2): 0 bytes are the end, EAGAIN says that there is nothing yet. A read of
// os.File with a deadline fails without asking the kernel if the time is up already.
func readAvailable(f *os.File, buffer []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, readErr = unix.Read(int(fd), buffer)
		return true
	})
	return max(n, 0), errors.Join(err, readErr)
}
