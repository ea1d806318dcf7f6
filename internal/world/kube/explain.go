package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// explain says what was being asked of which server and, where that is known, what to do about the failure.
func explain(a attempt, server string, err error) error {
	if err == nil {
		return nil
	}
	op := a.op
	if server != "" {
		op += " at " + server
	}
	if hints := remedies(a.as, server, err); len(hints) > 0 {
		return problem.New(op, brief(err), hints...)
	}
	return fmt.Errorf("%s: %w", op, brief(err))
}

func remedies(as state.Identity, server string, err error) []string {
	var refused *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		return []string{mistrust(as, server, refused.Err)}
	case apierrors.IsUnauthorized(err) && as.Kubeconfig == "":
		return []string{`the token may have expired or been deleted; make a new one on a control plane node: "kubeadm token create --print-join-command"`}
	case apierrors.IsUnauthorized(err):
		return []string{fmt.Sprintf("the client certificate or token in %s may have expired or belong to another cluster: `openssl x509 -noout -dates` shows a certificate's dates", as.Kubeconfig)}
	case apierrors.IsForbidden(err):
		return []string{fmt.Sprintf("the user of %s may not do this; an administrator's kubeconfig can be named with --kubeconfig", source(as))}
	}
	return nil
}

// mistrust explains why a server's certificate was not accepted.
func mistrust(as state.Identity, server string, err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("the CA in %s did not sign the certificate of %s: one of them belongs to another cluster", source(as), server)
	case errors.As(err, &name):
		return fmt.Sprintf("the certificate of %s is not made out to that name; apiServer.certSANs in the configuration adds names", server)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "by this machine's clock the certificate is not valid now: compare the clocks, or see its dates with `openssl x509 -noout -dates -in FILE`"
	}
	return fmt.Sprintf("the certificate of %s cannot be verified with the CA in %s", server, source(as))
}

// brief shortens what Go's HTTP client says, which repeats the URL, shows what a server says in one line, and
// keeps the error findable.
func brief(err error) error {
	var request *url.Error
	switch {
	case !errors.As(err, &request):
		return untrusted.Error(err)
	case utilnet.IsConnectionRefused(err):
		return worded{"connection refused", err}
	case request.Timeout() && !errors.Is(err, context.Canceled):
		return worded{"no answer in time", err}
	}
	return worded{untrusted.Line(request.Err.Error()), err}
}

// worded is an error in other words.
type worded struct {
	text string
	err  error
}

func (w worded) Error() string { return w.text }

func (w worded) Unwrap() error { return w.err }
