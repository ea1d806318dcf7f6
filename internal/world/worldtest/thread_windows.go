package worldtest

import (
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// ThreadTime is how long this process has run: golang.org/x/sys reads no times of a thread.
func ThreadTime(t *testing.T) time.Duration {
	t.Helper()
	var started, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &started, &ended, &kernel,
		&user); err != nil {
		t.Fatal(err)
	}
	since := func(f windows.Filetime) time.Duration { // a duration in units of 100 ns
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
	}
	return since(kernel) + since(user)
}
