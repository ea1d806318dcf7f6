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

// File is what the PEM blocks of a file of certificates or keys hold, each in the order of the file.
type File struct {
	Certificates []*x509.Certificate
	Keys         []crypto.Signer    // private keys
	PublicKeys   []crypto.PublicKey // those that stand by themselves
}

// ParseFile parses every PEM block of a file. Blocks that hold neither certificate nor key are skipped, such as
// the EC PARAMETERS that openssl writes before a key. A certificate or key that cannot be read is an error,
// wherever it stands: a component may use another block of the file than the first.
func ParseFile(data []byte) (File, error) {
	var f File
	count := 0
	for block := range pemBlocks(data) {
		count++
		if err := f.add(block); err != nil {
			return File{}, fmt.Errorf("reading PEM block %d, %q: %w", count, block.Type, err)
		}
	}
	switch begun := bytes.Count(data, []byte("-----BEGIN ")); {
	case count == 0 && begun == 0:
		return File{}, errors.New("neither a key nor a certificate in PEM form found")
	case count < begun:
		return File{}, fmt.Errorf("only %d of its %d PEM blocks can be read: the others are damaged or cut off", count, begun)
	}
	return f, nil
}

func (f *File) add(block *pem.Block) error {
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

// Verifies reports whether the file, as kube-apiserver reads sa.pub, verifies what the key signs: public keys
// count, and the public halves of certificates and private keys.
func (f File) Verifies(key crypto.Signer) bool {
	public := slices.Clone(f.PublicKeys)
	for _, c := range f.Certificates {
		public = append(public, c.PublicKey)
	}
	for _, k := range f.Keys {
		public = append(public, k.Public())
	}
	return slices.ContainsFunc(public, func(p crypto.PublicKey) bool { return equalKeys(p, key.Public()) })
}

// HoldsPrivateKey reports whether the text has a private key in it, of any kind and in any place, be it damaged.
func HoldsPrivateKey(data []byte) bool { return bytes.Contains(data, []byte(pemPrivateKey+"-----")) }

// WithoutPrivateKeys returns the certificates of a bundle that is about to be published or written where others
// can read it: data as it is, unless it holds a private key too.
func WithoutPrivateKeys(data []byte) ([]byte, error) {
	if !HoldsPrivateKey(data) {
		return data, nil
	}
	certs, err := ParseCertificates(data)
	return EncodeCertificates(certs...), err
}
