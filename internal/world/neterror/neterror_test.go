package neterror

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestConnectionErrors makes the real errors: Windows has codes of its own for them.
func TestConnectionErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, error) {
		return (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	}
	err = io.EOF
	for attempt := 0; errors.Is(err, io.EOF) && attempt < 20; attempt++ { // Wine takes some resets for the end of the stream
		err = readReset(t, l, dial)
	}
	if !IsConnectionReset(err) || IsConnectionRefused(err) {
		t.Errorf("%v is not recognized as a reset connection", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(); !IsConnectionRefused(err) || IsConnectionReset(err) {
		t.Errorf("%v is not recognized as a refused connection", err)
	}
	for _, err := range []error{nil, context.DeadlineExceeded} {
		if IsConnectionRefused(err) || IsConnectionReset(err) {
			t.Errorf("%v is neither", err)
		}
	}
}

// readReset returns the error of reading from a connection that the server has reset.
func readReset(t *testing.T, l net.Listener, dial func() (net.Conn, error)) error {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		failed <- err
	}()
	time.Sleep(20 * time.Millisecond) // so that it most likely reads
	// closed without the time to send what is left, a connection is reset
	if err := errors.Join(accepted.(*net.TCPConn).SetLinger(0), accepted.Close()); err != nil {
		t.Fatal(err)
	}
	return <-failed
}
