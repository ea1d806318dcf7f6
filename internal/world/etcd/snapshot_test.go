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

func TestSnapshotChecksum(t *testing.T) {
	data := bytes.Repeat([]byte("database"), 2*512/8)
	sum := sha256.Sum256(data)
	complete := slices.Concat(data, sum[:])
	for name, c := range map[string]struct {
		sent []byte
		says string
	}{
		"complete":         {complete, ""},
		"nothing":          {nil, "0 bytes"},
		"checksum alone":   {sum[:], "snapshot is incomplete"},
		"truncated":        {complete[:len(complete)-1], "snapshot is incomplete"},
		"without checksum": {data, "snapshot is incomplete"},
		"missing sector":   {complete[512:], "does not match its checksum"},
		"changed byte": {slices.Concat([]byte("D"), complete[1:]),
			"does not match its checksum"},
	} {
		for _, part := range []int{1, 31, 33, 512, 4096} {
			var got bytes.Buffer
			verifier := &checksumVerifier{to: &got, hash: sha256.New()}
			for chunk := range slices.Chunk(c.sent, part) {
				if _, err := verifier.Write(chunk); err != nil {
					t.Fatal(err)
				}
			}
			err := verifier.check()
			if c.says == "" && err != nil || c.says != "" &&
				(err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s in parts of %d: %v", name, part, err)
			}
			if !bytes.Equal(got.Bytes(), c.sent) {
				t.Errorf("%s in parts of %d: %d of %d bytes are passed on", name, part, got.Len(),
					len(c.sent))
			}
		}
	}
}
