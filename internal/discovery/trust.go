package discovery

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// lasting tells whether asking once more gets the same answer: from a server that proves not to be the one that
// was meant, or that sends us elsewhere.
func lasting(err error) bool {
	var said apierrors.APIStatus
	return world.Hopeless(err) || untrusted(err) != nil || errors.Is(err, change.ErrAstray) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &said) && said.Status().Code/100 == 3
}

// untrusted is the reason why a server's certificate was not accepted; nil if that is not what err says.
func untrusted(err error) error {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return nil
}

// impostor says why the server that answers is not the one that was meant, whose CA is known.
func impostor(err error) error {
	var wrong x509.UnknownAuthorityError
	var name x509.HostnameError
	switch reason := untrusted(err); {
	case errors.As(reason, &wrong):
		return fmt.Errorf("its certificate is not signed by the cluster's CA: somebody else answers there: %w", err)
	case errors.As(reason, &name):
		return fmt.Errorf("its certificate is made out to another name: %w", err)
	}
	return err
}

// matching are those of the cluster's CA certificates that the pins vouch for. Without pins it is all of them.
func matching(certs []*x509.Certificate, hashes []string) ([]*x509.Certificate, error) {
	pins, err := pki.ParsePins(hashes)
	if err != nil || len(pins) == 0 {
		return certs, err
	}
	return pki.MatchPins(certs, pins)
}

const comparePins = "compare --discovery-token-ca-cert-hash with what `kubeadm token create --print-join-command` says on a control plane"

// notMeant says that a cluster has none of the CAs that the user named.
func notMeant(where string, err error) error {
	return problem.New("the cluster at "+where+" is not the one that was meant", err, comparePins,
		"if they are the same there, somebody else answers at "+where)
}

// reachable adds what to look at where a server was waited for in vain.
func reachable(server string, err error) error {
	if world.Hopeless(err) || errors.Is(err, world.ErrWithoutEtcd) {
		return err
	}
	return problem.New("", err, "see whether the API server can be reached from here: curl -k "+server+"/livez")
}
