//go:build windows

// Package pipe connects to named pipes of Windows.
package pipe

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// pause is how often a pipe is tried whose server serves others.
const pause = 20 * time.Millisecond

// Dial opens a named pipe. The handle is opened for overlapped I/O, which lets os.File read and
// write at the same time, and end both at a deadline.
func Dial(ctx context.Context, name string) (net.Conn, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	for {
		h, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil,
			windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|
				windows.SECURITY_ANONYMOUS, 0)
		if err == nil {
			return conn{os.NewFile(uintptr(h), name)}, nil
		}
		if !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			return nil, &os.PathError{Op: "open", Path: filepath.ToSlash(name), Err: err}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// conn is the client's end of a named pipe.
type conn struct{ *os.File }

func (c conn) LocalAddr() net.Addr  { return address(c.Name()) }
func (c conn) RemoteAddr() net.Addr { return address(c.Name()) }

type address string

func (a address) Network() string { return "pipe" }
func (a address) String() string  { return string(a) }
