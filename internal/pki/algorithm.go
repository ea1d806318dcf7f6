package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
)

// Algorithm names a kind and size of private key, spelled as in the field
// encryptionAlgorithm of the ClusterConfiguration.
type Algorithm string

// The algorithms a cluster may choose from.
const (
	RSA2048   Algorithm = "RSA-2048"
	RSA3072   Algorithm = "RSA-3072"
	RSA4096   Algorithm = "RSA-4096"
	ECDSAP256 Algorithm = "ECDSA-P256"
	ECDSAP384 Algorithm = "ECDSA-P384"
)

// DefaultAlgorithm is used where a configuration names none.
const DefaultAlgorithm = RSA2048

// algorithms are those that ParseAlgorithm accepts.
var algorithms = []Algorithm{RSA2048, RSA3072, RSA4096, ECDSAP256, ECDSAP384}

// ParseAlgorithm accepts exactly the names of the constants above; the error for any other name
// lists them.
func ParseAlgorithm(name string) (Algorithm, error) {
	a := Algorithm(name)
	if !slices.Contains(algorithms, a) {
		var names []string
		for _, known := range algorithms {
			names = append(names, string(known))
		}
		return "", fmt.Errorf("unknown key algorithm %q: choose one of %s", name,
			strings.Join(names, ", "))
	}
	return a, nil
}

// AlgorithmOf returns the algorithm of a public key; false if it is none of the above.
func AlgorithmOf(key crypto.PublicKey) (Algorithm, bool) {
	var a Algorithm
	switch k := key.(type) {
	case *rsa.PublicKey:
		a = map[int]Algorithm{2048: RSA2048, 3072: RSA3072, 4096: RSA4096}[k.N.BitLen()]
	case *ecdsa.PublicKey:
		a = map[string]Algorithm{"P-256": ECDSAP256, "P-384": ECDSAP384}[k.Curve.Params().Name]
	}
	return a, a != ""
}
