package pki

import (
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

// Algorithms lists every algorithm that ParseAlgorithm accepts.
func Algorithms() []Algorithm {
	return []Algorithm{RSA2048, RSA3072, RSA4096, ECDSAP256, ECDSAP384}
}

// ParseAlgorithm accepts exactly the names of Algorithms; the error for any
// other name lists them.
func ParseAlgorithm(name string) (Algorithm, error) {
	a := Algorithm(name)
	if !slices.Contains(Algorithms(), a) {
		return "", fmt.Errorf("unknown key algorithm %q: choose one of %s", name, algorithmList())
	}
	return a, nil
}

func algorithmList() string {
	var names []string
	for _, a := range Algorithms() {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}
