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

// CertificateKey encrypts the certificates that are uploaded to the cluster. It is a secret:
// package fmt prints a placeholder for it, and only Hex returns it.
type CertificateKey struct {
	raw [certificateKeySize]byte
}

// NewCertificateKey generates a key from random.
func NewCertificateKey(random io.Reader) (CertificateKey, error) {
	var k CertificateKey
	if _, err := io.ReadFull(random, k.raw[:]); err != nil {
		return CertificateKey{}, fmt.Errorf("generating a certificate key: %w", err)
	}
	return k, nil
}

// ParseCertificateKey parses 64 hex digits. Its errors do not repeat the text.
func ParseCertificateKey(text string) (CertificateKey, error) {
	invalid := 0
	for _, r := range text {
		if !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			invalid++
		}
	}
	length := utf8.RuneCountInString(text)
	switch {
	case invalid > 0:
		return CertificateKey{},
			fmt.Errorf("the certificate key must consist of %d hex digits (0-9, a-f): %d of its %d characters are not",
				2*certificateKeySize, invalid, length)
	case length != 2*certificateKeySize:
		return CertificateKey{},
			fmt.Errorf("the certificate key must have %d hex digits, not %d", 2*certificateKeySize,
				length)
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		// the error of hex repeats a part
		return CertificateKey{}, errors.New("the certificate key cannot be parsed")
	}
	return CertificateKey{raw: [certificateKeySize]byte(raw)}, nil
}

// Hex returns the text that ParseCertificateKey parses, in lower case.
func (k CertificateKey) Hex() string { return hex.EncodeToString(k.raw[:]) }

// Format writes a placeholder, whatever the verb, to keep the key out of logs.
func (k CertificateKey) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "<certificate key>")
}

// Encrypt encrypts with AES-256-GCM and a random nonce. The result is
// nonce (12 bytes), ciphertext, tag (16 bytes).
func (k CertificateKey) Encrypt(random io.Reader, plain []byte) ([]byte, error) {
	aead, err := k.newAEAD()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("generating a nonce: %w", err)
	}
	return aead.Seal(nonce, nonce, plain, nil), nil
}

// Decrypt decrypts the result of Encrypt with the same key. It returns an error for any other data.
func (k CertificateKey) Decrypt(encrypted []byte) ([]byte, error) {
	aead, err := k.newAEAD()
	if err != nil {
		return nil, err
	}
	n := aead.NonceSize()
	if len(encrypted) < n+aead.Overhead() {
		return nil, fmt.Errorf("encrypted data of %d bytes is too short", len(encrypted))
	}
	plain, err := aead.Open(nil, encrypted[:n], encrypted[n:], nil)
	if err != nil {
		return nil, errors.New(
			"the certificate key does not match the encrypted data, or the data was altered")
	}
	return plain, nil
}

func (k CertificateKey) newAEAD() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.raw[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
