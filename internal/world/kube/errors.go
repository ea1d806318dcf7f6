package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
	"kubeadm/internal/world/neterror"
)

// wrapRequestError adds the operation, the server and hints to an error.
func wrapRequestError(a request, server string, err error) error {
	if err == nil {
		return nil
	}
	op := a.op
	if server != "" {
		op += " at " + server
	}
	var refused *tls.CertificateVerificationError
	var unreached *url.Error
	var hint string
	switch {
	case world.ProxyHint(err) != "":
		hint = world.ProxyHint(err)
	case errors.As(err, &refused):
		hint = certificateHint(a.as, server, refused.Err)
	case apierrors.IsUnauthorized(err) && a.as.Kubeconfig == "":
		hint = `the token may have expired or been deleted; create a new one on a control plane node: "kubeadm token create --print-join-command"`
	case apierrors.IsUnauthorized(err):
		hint = fmt.Sprintf(
			"the client certificate or token in %s may have expired or belong to another cluster; to check the dates of a certificate: openssl x509 -noout -dates -in FILE", a.as.Kubeconfig)
	case apierrors.IsForbidden(err):
		hint = fmt.Sprintf(
			"the user of %s is not authorized; set --kubeconfig to an administrator's kubeconfig",
			describeIdentity(a.as))
	case errors.As(err, &unreached) && server != "":
		hint = fmt.Sprintf("check that an API server is running at %s and that this machine can reach it; on that machine, run: kubeadm doctor", server)
	default:
		return fmt.Errorf("%s: %w", op, shortenError(err))
	}
	return problem.During(op, shortenError(err), hint)
}

// certificateHint explains why a server's certificate was rejected.
func certificateHint(as state.Identity, server string, err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("the CA in %s did not sign the certificate of %s: one of them belongs to another cluster", describeIdentity(as), server)
	case errors.As(err, &name):
		return fmt.Sprintf("the certificate of %s is not valid for that name; apiServer.certSANs in the configuration adds names", server)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "by this machine's clock, the certificate is not valid now: compare the clocks; if it has expired, renew it on that control plane node: kubeadm certs renew all --restart"
	}
	return fmt.Sprintf("the certificate of %s cannot be verified with the CA in %s", server,
		describeIdentity(as))
}

// shortenError shortens errors of Go's HTTP client, which repeat the URL, and escapes the text of
// a server. The result wraps the error.
func shortenError(err error) error {
	var request *url.Error
	switch {
	case !errors.As(err, &request):
		return untrusted.Error(err)
	case neterror.IsConnectionRefused(err):
		return rewordedError{"connection refused", err}
	case request.Timeout() && !errors.Is(err, context.Canceled):
		return rewordedError{"no answer in time", err}
	}
	return rewordedError{untrusted.Line(request.Err.Error()), err}
}

// rewordedError is an error with another text.
type rewordedError struct {
	text string
	err  error
}

func (w rewordedError) Error() string { return w.text }

func (w rewordedError) Unwrap() error { return w.err }
