package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Bounds of reading a FIFO or a terminal. A writer may be a program that asks for a password first.
const (
	writerLimit = 5 * time.Second // until some program opens a FIFO for writing
	quietLimit  = 2 * time.Minute // without a byte
	streamLimit = 16 << 20        // bytes, of a regular file too
	streamPause = 20 * time.Millisecond
)

// readStream reads what was opened with O_NONBLOCK up to its end.
func readStream(ctx context.Context, f *os.File, fifo bool) ([]byte, error) {
	var all []byte
	begun := time.Now()
	last, written := begun, !fifo // written: a writer has been there
	buffer := make([]byte, 64<<10)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
		}
		_ = f.SetReadDeadline(time.Now().Add(streamPause)) // what knows no deadlines, as /dev/null, does not wait
		n, err := f.Read(buffer)
		all = append(all, buffer[:n]...)
		switch {
		case len(all) > streamLimit:
			return nil, fmt.Errorf("reading %s: it does not end after %d MiB", f.Name(), streamLimit>>20)
		case n > 0:
			last, written = time.Now(), true
		case errors.Is(err, os.ErrDeadlineExceeded):
			written = true // without one the answer is the end of the file
			if time.Since(last) > quietLimit {
				return nil, fmt.Errorf("reading %s: nothing was written to it within %s", f.Name(), quietLimit)
			}
		case errors.Is(err, io.EOF) && written:
			return all, nil
		case errors.Is(err, io.EOF):
			if time.Since(begun) > writerLimit {
				return nil, fmt.Errorf("reading %s: it is a FIFO, and no program has opened it for writing within %s", f.Name(), writerLimit)
			}
			time.Sleep(streamPause)
		case err != nil:
			return nil, err
		}
	}
}
