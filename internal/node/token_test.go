package node

import (
	"bytes"
	"crypto/rand"
	"testing"
)

func TestNewToken(t *testing.T) {
	id, secret, err := NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	gotID, gotSecret, err := ParseToken(id + "." + secret)
	if err != nil || gotID != id || gotSecret != secret {
		t.Errorf("ParseToken(%q) = %q, %q, %v", id+"."+secret, gotID, gotSecret, err)
	}
}

func TestNewTokenIsUnbiased(t *testing.T) {
	// 252 to 255 are skipped, so all letters come from the 22 bytes after them.
	stream := append([]byte{252, 255, 254, 253}, bytes.Repeat([]byte{35}, 22)...)
	id, secret, err := NewToken(bytes.NewReader(stream))
	if err != nil || id != "999999" || secret != "9999999999999999" {
		t.Errorf("NewToken = %q, %q, %v", id, secret, err)
	}
}

func TestNewTokenWithoutRandomness(t *testing.T) {
	if _, _, err := NewToken(bytes.NewReader(nil)); err == nil {
		t.Error("no error without randomness")
	}
}

func TestParseTokenErrors(t *testing.T) {
	for _, text := range []string{"", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef",
		"abcdef.0123456789abcdef\n", "abcdef-0123456789abcdef"} {
		if _, _, err := ParseToken(text); err == nil {
			t.Errorf("ParseToken(%q) was accepted", text)
		}
	}
}
