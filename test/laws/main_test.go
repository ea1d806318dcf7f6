package laws

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain reduces garbage collection: the tests create many small machines that are dropped
// together.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
