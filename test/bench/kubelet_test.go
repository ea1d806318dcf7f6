package main

import (
	"strings"
	"testing"
	"time"
)

const journal = `{"UNIT":"kubelet.service","__REALTIME_TIMESTAMP":"1000000"}
{"UNIT":"kubelet.service","__REALTIME_TIMESTAMP":"11000000"}
{"UNIT":"kubelet.service","__REALTIME_TIMESTAMP":"12500000"}
`

func TestFirstStartAfter(t *testing.T) {
	for after, want := range map[int64]int64{5_000_000: 11_000_000, 11_000_000: 11_000_000,
		11_000_001: 12_500_000} {
		at, err := firstStartAfter(journal, time.UnixMicro(after))
		if err != nil || !at.Equal(time.UnixMicro(want)) {
			t.Errorf("after %d: got %v, %v, want %v", after, at, err, time.UnixMicro(want))
		}
	}
	if at, err := firstStartAfter(journal, time.UnixMicro(13_000_000)); err == nil {
		t.Errorf("after the last start: got %v, want an error", at)
	}
	if _, err := firstStartAfter("-- No entries --\n", time.UnixMicro(0)); err == nil ||
		!strings.Contains(err.Error(), "journal") {
		t.Errorf("a journal that is none: got %v", err)
	}
}
