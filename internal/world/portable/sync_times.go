package portable

import (
	"context"
	"os"
	"time"
)

// Limits of SyncTimes.
const (
	syncSize  = 2 << 10 // bytes, about an entry of etcd's write-ahead log
	syncCount = 50
	syncLimit = 500 * time.Millisecond
)

// SyncTimes is the fsync probe: it measures how long small writes to a file take to reach the disk by sync.
func SyncTimes(ctx context.Context, f *os.File, sync func() error) (times []time.Duration, err error) {
	data := make([]byte, syncSize)
	for begun := time.Now(); len(times) < syncCount && time.Since(begun) < syncLimit; {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if _, err := f.Write(data); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}
