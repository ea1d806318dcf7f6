package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// File holds the parsed PEM blocks of a file, each list in the order of the file.
type File struct {
	Certificates []*x509.Certificate
	Keys         []crypto.Signer    // private keys
	PublicKeys   []crypto.PublicKey // from blocks of type PUBLIC KEY
}

// ParseFile parses every PEM block of a file. Blocks of other types than certificates and keys are
// skipped, such as the EC PARAMETERS that openssl writes before a key. An unreadable certificate
// or key is an error at any position: a component may use another block than the first.
func ParseFile(data []byte) (File, error) {
	var f File
	count := 0
	for block := range pemBlocks(data) {
		count++
		if err := f.addBlock(block); err != nil {
			return File{}, fmt.Errorf("reading PEM block %d, %q: %w", count, block.Type, err)
		}
	}
	switch headers := bytes.Count(data, []byte("-----BEGIN ")); {
	case count == 0 && headers == 0:
		return File{}, errors.New("neither a key nor a certificate in PEM form found")
	case count < headers:
		return File{}, fmt.Errorf(
			"only %d of its %d PEM blocks can be read: the others are damaged or truncated", count,
			headers)
	}
	return f, nil
}

func (f *File) addBlock(block *pem.Block) error {
	switch {
	case block.Type == pemCertificate:
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		f.Certificates = append(f.Certificates, cert)
	case block.Type == pemPublicKey:
		key, err := ParsePublicKey(pem.EncodeToMemory(block))
		if err != nil {
			return err
		}
		f.PublicKeys = append(f.PublicKeys, key)
	case strings.HasSuffix(block.Type, pemPrivateKey):
		key, err := ParseClientKey(pem.EncodeToMemory(block))
		if err != nil {
			return err
		}
		f.Keys = append(f.Keys, key)
	}
	return nil
}

// HasPublicKeyOf reports whether the file contains the public key of a private key. It looks where
// kube-apiserver looks in a file of --service-account-key-file: at public keys, certificates and
// private keys.
func (f File) HasPublicKeyOf(key crypto.Signer) bool {
	all := slices.Clone(f.PublicKeys)
	for _, c := range f.Certificates {
		all = append(all, c.PublicKey)
	}
	for _, k := range f.Keys {
		all = append(all, k.Public())
	}
	return slices.ContainsFunc(all, func(p crypto.PublicKey) bool {
		return IsKeyOf(key, p)
	})
}

// ContainsPublicKeyOf is HasPublicKeyOf for the content of a file. It returns an error for a
// damaged block before the public key, and for a file without any public key.
func ContainsPublicKeyOf(data []byte, key crypto.Signer) (bool, error) {
	var f File
	for block := range pemBlocks(data) {
		if err := f.addBlock(block); err != nil {
			return false, fmt.Errorf("reading a block %q: %w", block.Type, err)
		}
		if f.HasPublicKeyOf(key) {
			return true, nil
		}
	}
	if len(f.PublicKeys)+len(f.Certificates)+len(f.Keys) == 0 {
		return false, errors.New("no public key in PEM form found")
	}
	return false, nil
}

// ContainsPrivateKey reports whether data contains a private key of any type in PEM form, at any
// position, even a damaged one, or is one in DER form.
func ContainsPrivateKey(data []byte) bool {
	if bytes.Contains(data, []byte(pemPrivateKey+"-----")) {
		return true
	}
	if _, err := x509.ParsePKCS8PrivateKey(data); err == nil {
		return true
	}
	if _, err := x509.ParsePKCS1PrivateKey(data); err == nil {
		return true
	}
	_, err := x509.ParseECPrivateKey(data)
	return err == nil
}

// ReencodeCertificates returns the certificates of a PEM bundle and nothing else of it: no keys, no
// other blocks and no text between them.
func ReencodeCertificates(data []byte) ([]byte, error) {
	certs, err := ParseCertificates(data)
	return EncodeCertificates(certs...), err
}

// WithoutPrivateKeys returns data unchanged unless it contains a private key. If it does, it
// returns only the certificates. Use it before a CA bundle is published or written to a file
// that others can read.
func WithoutPrivateKeys(data []byte) ([]byte, error) {
	if !ContainsPrivateKey(data) {
		return data, nil
	}
	return ReencodeCertificates(data)
}
