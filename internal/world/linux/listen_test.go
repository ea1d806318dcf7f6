//go:build linux

package linux

import (
	"net"
	"os"
	"strings"
	"testing"
)

// Any user may choose the name of a process.
func TestListenerNameIsEscaped(t *testing.T) {
	const file = "/proc/self/comm"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("a\x1b[2J\nhint: b"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			t.Error(err)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if owner := findListener(l.Addr().String()); !strings.HasPrefix(owner,
		`a\x1b[2J\nhint: b (pid `) {
		t.Errorf("got %q", owner)
	}
}
