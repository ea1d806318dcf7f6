package worldtest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is how long this thread has run.
func ThreadTime(t *testing.T) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}
