// Package portable is what every operating system does in the same way: requests to servers, name
// lookups, running programs and reading the end of a file.
package portable

import (
	"crypto/rand"
	"io"
	"os"
	"time"
)

// Machine is the part of a machine that does not depend on its operating system. The zero value is
// ready for use.
type Machine struct{}

// Now returns the time of the machine's clock.
func (m Machine) Now() time.Time { return time.Now() }

// Random returns a stream of cryptographic randomness. Streams are independent of each other and
// safe for concurrent use.
func Random(string) io.Reader { return rand.Reader }

// Ticks sends the time again and again, at that interval, until stop is called.
func Ticks(every time.Duration) (ticks <-chan time.Time, stop func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// Tail returns the last bytes of a file, at most limit.
func (m Machine) Tail(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-limit), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
