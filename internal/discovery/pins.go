package discovery

import (
	"crypto/x509"

	"kubeadm/internal/pki"
)

// matchPins returns those of the CA certificates that have one of the hashes, all of them if there
// are no hashes. It is an error if none matches.
func matchPins(certs []*x509.Certificate, hashes []string) ([]*x509.Certificate, error) {
	if len(hashes) == 0 {
		return certs, nil
	}
	return pki.MatchPins(certs, hashes)
}

const comparePinsHint = "compare --discovery-token-ca-cert-hash with the hash that a control plane node prints: kubeadm token create --print-join-command"
