package laws

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets garbage lie: most of what a thousand small machines are made of is gone with each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
