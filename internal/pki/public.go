package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// HoldsPublicHalf reports whether PEM data holds the public half of key, as kube-apiserver reads the files of
// --service-account-key-file: of several public keys, certificates and private keys each counts.
func HoldsPublicHalf(data []byte, key crypto.Signer) (bool, error) {
	found := 0
	for block := range pemBlocks(data) {
		public, err := publicKeyOf(block)
		if err != nil {
			return false, err
		}
		if public == nil {
			continue
		}
		found++
		if same, ok := public.(interface{ Equal(crypto.PublicKey) bool }); ok && same.Equal(key.Public()) {
			return true, nil
		}
	}
	if found == 0 {
		return false, errors.New("no public key in PEM form found")
	}
	return false, nil
}

// publicKeyOf returns nil for blocks of other kinds.
func publicKeyOf(block *pem.Block) (crypto.PublicKey, error) {
	var public crypto.PublicKey
	var err error
	switch block.Type {
	case pemPublicKey:
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case pemCertificate:
		cert, failed := x509.ParseCertificate(block.Bytes)
		if err = failed; err == nil {
			public = cert.PublicKey
		}
	case pemRSAKey, pemECKey, pemPKCS8Key:
		key, failed := ParseKey(pem.EncodeToMemory(block))
		if err = failed; err == nil {
			public = key.Public()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading a block %q: it is damaged, or of another form than its first line says", block.Type)
	}
	return public, nil
}
