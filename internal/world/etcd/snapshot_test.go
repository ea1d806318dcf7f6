package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A disk of this machine that stalls is not etcd's silence.
func TestSnapshotStall(t *testing.T) {
	data := bytes.Repeat([]byte("database"), 2*512/8)
	sum := sha256.Sum256(data)
	complete := slices.Concat(data, sum[:])
	for name, c := range map[string]struct {
		sends, writes time.Duration // how long each part takes
		says          string
	}{
		"fast":          {0, 0, ""},
		"slow disk":     {time.Second, 2 * stallTimeout, ""},
		"slow etcd":     {stallTimeout - time.Second, 0, ""},
		"silent etcd":   {stallTimeout + time.Second, 0, "etcd sent nothing for 30s"},
		"both are slow": {stallTimeout - time.Second, stallTimeout, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := slices.Collect(slices.Chunk(complete, 300))
				receive := func(ctx context.Context) (part []byte, err error) {
					select {
					case <-time.After(c.sends):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if len(left) == 0 {
						return nil, io.EOF
					}
					part, left = left[0], left[1:]
					return part, nil
				}
				err := (&Snapshot{}).copyParts(t.Context(), slowWriter(c.writes), receive)
				if c.says == "" && err != nil || c.says != "" &&
					(err == nil || !strings.Contains(err.Error(), c.says)) {
					t.Error(err)
				}
			})
		})
	}
}

// slowWriter takes a time for each write.
type slowWriter time.Duration

func (w slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(w))
	return len(p), nil
}
