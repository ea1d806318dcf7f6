package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestWatchMemory(t *testing.T) {
	unreadable := errors.New("unreadable")
	for name, c := range map[string]struct {
		peaks []int64
		end   error
		want  int64
		fault string
	}{
		"the last one read":   {[]int64{10, 30, 30}, os.ErrProcessDone, 30, ""},
		"not that of nsenter": {[]int64{50, 20}, os.ErrProcessDone, 20, ""},
		"exited at once":      {nil, os.ErrProcessDone, 0, "before its memory"},
		"an error":            {[]int64{10}, unreadable, 0, "unreadable"},
	} {
		reads := 0
		got := watchMemory(t.Context(), time.Microsecond, func() (int64, error) {
			if reads++; reads > len(c.peaks) {
				return 0, c.end
			}
			return c.peaks[reads-1], nil
		})
		if got.bytes != c.want || (got.err == nil) != (c.fault == "") ||
			got.err != nil && !strings.Contains(got.err.Error(), c.fault) {
			t.Errorf("%s: got %d bytes, %v, want %d, %q", name, got.bytes, got.err, c.want, c.fault)
		}
	}
}
