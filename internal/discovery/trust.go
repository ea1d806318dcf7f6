package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/flow"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// An answer of a wrong server ends a wait only if every attempt of this time has got one: behind a load
// balancer a single backend may be wrong, and the next attempt reaches another one.
const (
	wrongFor      = 5 * time.Second
	wrongAttempts = 10
)

// wrongServer is the error of an answer that cannot be the cluster's, and is not trusted.
type wrongServer struct{ error }

func (w wrongServer) Unwrap() error { return w.error }

// isWrongServer reports whether the answer came from a server that is not the one that was meant: it proves
// to be another one, redirects, or speaks plain HTTP.
func isWrongServer(err error) bool {
	var wrong wrongServer
	var answer apierrors.APIStatus
	return errors.As(err, &wrong) || mistrusted(err) != nil || errors.Is(err, state.ErrRedirected) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &answer) && answer.Status().Code/100 == 3
}

// await waits for what is up to a server. Answers of a wrong server are asked for again, and end the wait
// once there is no other answer.
func await(ctx context.Context, e *flow.Env, c world.Condition) error {
	check, count, since := c.Check, 0, time.Time{}
	c.Outside = true
	c.Check = func(ctx context.Context, r state.Reader) error {
		err := check(ctx, r)
		if !isWrongServer(err) {
			count = 0
			return err
		}
		if count++; count == 1 {
			since = r.Now()
		}
		if count >= wrongAttempts && r.Now().Sub(since) >= wrongFor {
			return world.GiveUp(err)
		}
		return err
	}
	return e.Await(ctx, c)
}

// mistrusted is the reason why a server's certificate was not accepted; nil if that is not what err says.
func mistrusted(err error) error {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return nil
}

// explainMistrust says why the server that answers is not the one that was meant, whose CA is known. The
// names in a certificate are of the server's choice.
func explainMistrust(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch reason := mistrusted(err); {
	case errors.As(reason, &unknown):
		return fmt.Errorf("its certificate is not signed by the cluster's CA: another server answers there: %w", untrusted.Error(err))
	case errors.As(reason, &name):
		return fmt.Errorf("its certificate is made out to another name: %w", untrusted.Error(err))
	}
	return untrusted.Error(err)
}

// matchPins are those of the cluster's CA certificates that a pin was given for. Without pins it is all of them.
func matchPins(certs []*x509.Certificate, hashes []string) ([]*x509.Certificate, error) {
	pins, err := pki.ParsePins(hashes)
	if err != nil || len(pins) == 0 {
		return certs, err
	}
	return pki.MatchPins(certs, pins)
}

const comparePins = "compare --discovery-token-ca-cert-hash with what `kubeadm token create --print-join-command` says on a control plane"

// reachable adds what to look at where a server was waited for in vain.
func reachable(server string, err error) error {
	if world.Hopeless(err) || errors.Is(err, world.ErrWithoutEtcd) {
		return err
	}
	return problem.New("", err, "see whether the API server can be reached from here: curl -k "+server+"/livez")
}
