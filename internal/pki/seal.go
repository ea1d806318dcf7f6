package pki

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const certificateKeySize = 32 // bytes: AES-256

// CertificateKey is the secret that seals certificates uploaded to the cluster.
// Printing one with fmt does not show it; only Hex does.
type CertificateKey struct {
	raw [certificateKeySize]byte
}

// NewCertificateKey draws a key from random.
func NewCertificateKey(random io.Reader) (CertificateKey, error) {
	var k CertificateKey
	if _, err := io.ReadFull(random, k.raw[:]); err != nil {
		return CertificateKey{}, fmt.Errorf("drawing a certificate key: %w", err)
	}
	return k, nil
}

// ParseCertificateKey reads 64 hex digits. Its errors do not repeat the text.
func ParseCertificateKey(text string) (CertificateKey, error) {
	strange := 0
	for _, r := range text {
		if !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			strange++
		}
	}
	length := utf8.RuneCountInString(text)
	switch {
	case strange > 0:
		return CertificateKey{}, fmt.Errorf("the certificate key must consist of %d hex digits (0-9, a-f): %d of its %d characters are not",
			2*certificateKeySize, strange, length)
	case length != 2*certificateKeySize:
		return CertificateKey{}, fmt.Errorf("the certificate key must have %d hex digits, not %d", 2*certificateKeySize, length)
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return CertificateKey{}, errors.New("the certificate key cannot be read") // the error of hex repeats a part
	}
	return CertificateKey{raw: [certificateKeySize]byte(raw)}, nil
}

// Hex is the form that ParseCertificateKey reads, in lower case.
func (k CertificateKey) Hex() string { return hex.EncodeToString(k.raw[:]) }

// Format writes a placeholder, whatever the verb, to keep the key out of logs.
func (k CertificateKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "<certificate key>") }

// Seal encrypts with AES-256-GCM under a nonce drawn from random. The result is
// nonce (12 bytes), ciphertext, tag (16 bytes).
func (k CertificateKey) Seal(random io.Reader, plain []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("drawing a nonce: %w", err)
	}
	return aead.Seal(nonce, nonce, plain, nil), nil
}

// Open decrypts what Seal made with the same key and fails on anything else.
func (k CertificateKey) Open(sealed []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	n := aead.NonceSize()
	if len(sealed) < n+aead.Overhead() {
		return nil, fmt.Errorf("sealed data of %d bytes is too short", len(sealed))
	}
	plain, err := aead.Open(nil, sealed[:n], sealed[n:], nil)
	if err != nil {
		return nil, errors.New("the certificate key does not fit the sealed data, or the data was altered")
	}
	return plain, nil
}

func (k CertificateKey) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.raw[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Names of the values in the Secret that carry the files of an external etcd.
const (
	SealedExternalEtcdCA          = "external-etcd-ca.crt"
	SealedExternalEtcdCertificate = "external-etcd.crt"
	SealedExternalEtcdKey         = "external-etcd.key"
)

// SealedName is the name under which a shared file travels: its path below the
// certificates directory with "-" in place of "/".
func SealedName(path string) string { return strings.ReplaceAll(path, "/", "-") }
