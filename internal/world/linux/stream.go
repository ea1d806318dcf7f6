package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
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
		// files without deadlines, such as /dev/null, do not block
		_ = f.SetReadDeadline(time.Now().Add(streamPause))
		n, err := f.Read(buffer)
		all = append(all, buffer[:n]...)
		switch {
		case len(all) > streamLimit:
			return nil, fmt.Errorf("reading %s: it does not end after %d MiB", f.Name(),
				streamLimit>>20)
		case n > 0:
			last, hadWriter = time.Now(), true
		case errors.Is(err, os.ErrDeadlineExceeded):
			hadWriter = true // a FIFO without a writer returns io.EOF
			if time.Since(last) > quietLimit {
				return nil, fmt.Errorf("reading %s: nothing was written to it within %s", f.Name(),
					quietLimit)
			}
		case errors.Is(err, io.EOF) && hadWriter:
			return all, nil
		case errors.Is(err, io.EOF):
			if time.Since(started) > writerLimit {
				return nil, fmt.Errorf(
					"reading %s: it is a FIFO, and no program has opened it for writing within %s",
					f.Name(), writerLimit)
			}
			time.Sleep(streamPause)
		case err != nil:
			return nil, err
		}
	}
}
