package etcd

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
)

func TestSnapshotMustHaveItsChecksum(t *testing.T) {
	data := bytes.Repeat([]byte("database"), 2*512/8)
	sum := sha256.Sum256(data)
	whole := slices.Concat(data, sum[:])
	for name, c := range map[string]struct {
		sent []byte
		says string
	}{
		"whole":             {whole, ""},
		"nothing":           {nil, "0 bytes"},
		"checksum alone":    {sum[:], "no whole snapshot"},
		"cut off":           {whole[:len(whole)-1], "no whole snapshot"},
		"without checksum":  {data, "no whole snapshot"},
		"a sector is lost":  {whole[512:], "does not have the checksum"},
		"a byte is another": {slices.Concat([]byte("D"), whole[1:]), "does not have the checksum"},
	} {
		for _, part := range []int{1, 31, 33, 512, 4096} {
			var got bytes.Buffer
			sums := &checksummed{to: &got, hash: sha256.New()}
			for chunk := range slices.Chunk(c.sent, part) {
				if _, err := sums.Write(chunk); err != nil {
					t.Fatal(err)
				}
			}
			err := sums.check()
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
