package pki

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDecryptNeedsSameKey(t *testing.T) {
	key, err := NewCertificateKey(rand.Reader)
	wantError(t, err)
	plain := []byte("a private key")
	encrypted, err := key.Encrypt(rand.Reader, plain)
	wantError(t, err)
	if len(encrypted) != 12+len(plain)+16 || bytes.Contains(encrypted, plain) {
		t.Errorf("encrypted data of %d bytes", len(encrypted))
	}
	again, err := ParseCertificateKey(strings.ToUpper(key.Hex()))
	wantError(t, err)
	decrypted, err := again.Decrypt(encrypted)
	wantError(t, err)
	if !bytes.Equal(decrypted, plain) {
		t.Errorf("decrypted %q", decrypted)
	}
	for i := range encrypted {
		altered := bytes.Clone(encrypted)
		altered[i] ^= 1
		if _, err := key.Decrypt(altered); err == nil {
			t.Fatalf("byte %d was altered without notice", i)
		}
	}
	other, err := NewCertificateKey(rand.Reader)
	wantError(t, err)
	_, err = other.Decrypt(encrypted)
	wantError(t, err, "certificate key")
	_, err = key.Decrypt(encrypted[:20])
	wantError(t, err, "20 bytes")
}

func TestNoncesDiffer(t *testing.T) {
	key, err := NewCertificateKey(rand.Reader)
	wantError(t, err)
	a, err := key.Encrypt(rand.Reader, []byte("x"))
	wantError(t, err)
	b, err := key.Encrypt(rand.Reader, []byte("x"))
	wantError(t, err)
	if bytes.Equal(a[:12], b[:12]) {
		t.Error("two results with one nonce")
	}
	_, err = key.Encrypt(iotest.ErrReader(io.ErrUnexpectedEOF), nil)
	wantError(t, err, "nonce")
	_, err = NewCertificateKey(bytes.NewReader(make([]byte, 31)))
	wantError(t, err, "certificate key")
}

// Test case 14 of "The Galois/Counter Mode of Operation" by McGrew and Viega.
func TestEncryptionIsStandardGCM(t *testing.T) {
	key, err := ParseCertificateKey(strings.Repeat("0", 64))
	wantError(t, err)
	encrypted, err := key.Encrypt(zeros{}, make([]byte, 16))
	wantError(t, err)
	want := strings.Repeat("0", 24) + "cea7403d4d606b6e074ec5d3baf39d18" +
		"d0d1c8a799996bf0265b98b5d48ab919"
	if got := hex.EncodeToString(encrypted); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseCertificateKeyDoesNotRepeatKey(t *testing.T) {
	for _, text := range []string{"", "abc", "zz", strings.Repeat("ab", 16),
		strings.Repeat("ab", 33)} {
		_, err := ParseCertificateKey(text)
		wantError(t, err, "certificate key")
		if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestFormatDoesNotShowCertificateKey(t *testing.T) {
	key, err := NewCertificateKey(rand.Reader)
	wantError(t, err)
	holder := struct {
		Key  CertificateKey
		Many []*CertificateKey
	}{key, []*CertificateKey{&key}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		text := fmt.Sprintf(format, holder) + fmt.Sprintf(format, key)
		if strings.Contains(text, key.Hex()) ||
			strings.Contains(text, fmt.Sprint(key.raw[0], key.raw[1], key.raw[2])) {
			t.Errorf("%s shows the key: %s", format, text)
		}
	}
}

func TestUploadedNamesHaveNoSlash(t *testing.T) {
	for path, want := range map[string]string{"ca.crt": "ca.crt", "etcd/ca.key": "etcd-ca.key"} {
		if got := UploadedName(path); got != want {
			t.Errorf("%s is uploaded as %s, want %s", path, got, want)
		}
	}
}

func TestParseCertificateKeyReportsLength(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a", 63):       "must have 64 hex digits, not 63",
		strings.Repeat("a", 65):       "must have 64 hex digits, not 65",
		"":                            "must have 64 hex digits, not 0",
		strings.Repeat("a", 63) + "g": "1 of its 64 characters are not",
		strings.Repeat("\u00e9", 2):   "2 of its 2 characters are not",
	} {
		_, err := ParseCertificateKey(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if err != nil && len(text) > 2 && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}
