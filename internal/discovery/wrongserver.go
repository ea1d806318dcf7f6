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

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Answers of a wrong server end a wait only if all attempts of this duration got one: behind a
// load balancer a single backend may be wrong, and the next attempt reaches another one.
const (
	wrongServerDuration = 5 * time.Second
	wrongServerAttempts = 10
)

// wrongServer is the error of an answer that cannot be from the expected cluster.
type wrongServer struct{ error }

func (w wrongServer) Unwrap() error { return w.error }

// isWrongServer reports whether the answer is not from an API server of the expected cluster: its
// certificate is another one, or it redirects, or it speaks plain HTTP.
func isWrongServer(err error) bool {
	var wrong wrongServer
	var answer apierrors.APIStatus
	return errors.As(err, &wrong) || certificateError(err) != nil ||
		errors.Is(err, state.ErrRedirected) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &answer) && answer.Status().Code/100 == 3
}

// awaitServer waits for a condition of the cluster. After an answer of a wrong server it asks
// again, and gives up if there is no other answer for wrongServerDuration.
func awaitServer(ctx context.Context, e *engine.Env, c world.Condition) error {
	check, count, since := c.Check, 0, time.Time{}
	c.External, c.MaxPause = true, world.LongPause
	c.Check = func(ctx context.Context, r state.Reader) error {
		err := check(ctx, r)
		if !isWrongServer(err) {
			count = 0
			return err
		}
		if count++; count == 1 {
			since = r.Now()
		}
		if count >= wrongServerAttempts && r.Now().Sub(since) >= wrongServerDuration {
			return world.Permanent(err)
		}
		return err
	}
	return e.Await(ctx, c)
}

// certificateError returns why a server's certificate was not accepted, nil if err has another
// cause.
func certificateError(err error) error {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return nil
}

// explainCertificateError says why the server is not of the cluster whose CA is known. It quotes
// the names in the certificate, as the server chooses them.
func explainCertificateError(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch reason := certificateError(err); {
	case errors.As(reason, &unknown):
		return fmt.Errorf("its certificate is not signed by the cluster's CA, so a different server answers there: %w", untrusted.Error(err))
	case errors.As(reason, &name):
		return fmt.Errorf("its certificate is for a different name: %w", untrusted.Error(err))
	}
	return untrusted.Error(err)
}

// withReachabilityHint adds a command that checks the connection to a server that did not answer
// in time.
func withReachabilityHint(server string, err error) error {
	if world.IsPermanent(err) || errors.Is(err, world.ErrEtcdUnavailable) {
		return err
	}
	return problem.New(err, "check whether the API server is reachable from this machine: curl -k "+
		server+"/livez")
}
