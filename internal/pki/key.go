package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// The PEM block types of keys. PKCS#8 is read, never written.
const (
	pemRSAKey   = "RSA PRIVATE KEY" // PKCS#1
	pemECKey    = "EC PRIVATE KEY"  // SEC 1
	pemPKCS8Key = "PRIVATE KEY"

	pemPrivateKey   = "PRIVATE KEY"           // suffix of all private key types
	pemEncryptedKey = "ENCRYPTED PRIVATE KEY" // PKCS#8; older formats use a DEK-Info header
	pemPublicKey    = "PUBLIC KEY"            // PKIX
)

// NewKey generates a private key. It is safe to call from several goroutines if
// random is.
//
// Since Go 1.26 the standard library takes randomness from the operating system and
// does not read random unless GODEBUG=cryptocustomrand=1 is set. A test that needs
// repeatable keys uses testing/cryptotest.SetGlobalRandom.
func NewKey(random io.Reader, a Algorithm) (crypto.Signer, error) {
	var key crypto.Signer
	var err error
	switch a {
	case RSA2048:
		key, err = rsa.GenerateKey(random, 2048)
	case RSA3072:
		key, err = rsa.GenerateKey(random, 3072)
	case RSA4096:
		key, err = rsa.GenerateKey(random, 4096)
	case ECDSAP256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), random)
	case ECDSAP384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), random)
	default:
		_, err = ParseAlgorithm(string(a))
	}
	if err != nil {
		return nil, fmt.Errorf("generating a %s key: %w", a, err)
	}
	return key, nil
}

// minRSABits is the size of the smallest RSA key with which Go signs.
const minRSABits = 1024

// EncodeKey returns the key as PEM: PKCS#1 for RSA, SEC 1 for ECDSA.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return encodePEM(pemRSAKey, x509.MarshalPKCS1PrivateKey(k)), nil
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			return nil, fmt.Errorf("encoding an ECDSA private key: %w", err)
		}
		return encodePEM(pemECKey, der), nil
	}
	return nil, fmt.Errorf("encoding a private key of type %T: only RSA and ECDSA are known", key)
}

// ParseKey returns the first private key in PEM data, which must be RSA or ECDSA.
// Blocks of other types, such as certificates, are skipped.
func ParseKey(data []byte) (crypto.Signer, error) {
	key, err := ParseClientKey(data)
	if _, ok := key.(ed25519.PrivateKey); ok {
		return nil, fmt.Errorf("private key is of type %T: only RSA and ECDSA are known", key)
	}
	return key, err
}

// ParseClientKey is ParseKey for the key of a TLS client certificate, which may also be
// Ed25519. kubeadm neither generates Ed25519 keys nor signs with them.
func ParseClientKey(data []byte) (crypto.Signer, error) {
	for block := range pemBlocks(data) {
		if block.Type == pemEncryptedKey || block.Headers["DEK-Info"] != "" {
			return nil, errors.New(
				"the private key is encrypted, so no component could read it; decrypt it")
		}
		var key any
		var err error
		switch block.Type {
		case pemRSAKey:
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case pemECKey:
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case pemPKCS8Key:
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil { // too technical to show
			return nil, errors.New(
				"parsing a private key: it is damaged, or its first line names the wrong format")
		}
		switch k := key.(type) {
		case *rsa.PrivateKey:
			if bits := k.N.BitLen(); bits < minRSABits {
				return nil, fmt.Errorf("the RSA key has %d bits, but TLS needs at least %d", bits, minRSABits)
			}
			return k, nil
		case *ecdsa.PrivateKey:
			return k, nil
		case ed25519.PrivateKey:
			return k, nil
		}
		return nil, fmt.Errorf("private key is of type %T: only RSA and ECDSA are known", key)
	}
	return nil, errors.New("no private key in PEM form found")
}

// EncodePublicKey returns a public key as a PKIX "PUBLIC KEY" PEM block.
func EncodePublicKey(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a public key: %w", err)
	}
	return encodePEM(pemPublicKey, der), nil
}

// ParsePublicKey returns the first PKIX public key in PEM data, RSA or ECDSA.
func ParsePublicKey(data []byte) (crypto.PublicKey, error) {
	for block := range pemBlocks(data) {
		if block.Type != pemPublicKey {
			continue
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing a public key: %w", err)
		}
		switch key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey:
			return key, nil
		}
		return nil, fmt.Errorf("public key is of type %T: only RSA and ECDSA are known", key)
	}
	return nil, errors.New("no public key in PEM form found")
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pemBlocks yields the PEM blocks of data in order and ignores everything else.
func pemBlocks(data []byte) func(yield func(*pem.Block) bool) {
	return func(yield func(*pem.Block) bool) {
		rest := bytes.TrimSpace(data)
		for {
			var block *pem.Block
			block, rest = pem.Decode(rest)
			if block == nil || !yield(block) {
				return
			}
		}
	}
}
