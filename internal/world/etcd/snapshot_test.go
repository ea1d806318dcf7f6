package etcd

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
)

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
