package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/neterror"
)

// request is one operation on the API server, with the rules for its retries.
type request struct {
	as          state.Identity
	op          string           // for messages, such as "reading Node cp1"
	isRetryable func(error) bool // whether to retry after this error
	isRead      bool             // also retried after transient errors for world.RetryLimit
	timeout     time.Duration    // of all attempts if the context has no deadline; 0 for that of the Cluster
	do          func(ctx context.Context, c *client) error
}

// progressInterval is the time between two progress messages.
const progressInterval = 10 * time.Second

func (k *Cluster) retry(ctx context.Context, a request) error {
	c, err := k.clientFor(a.as)
	if err != nil {
		return wrapRequestError(a, "", err)
	}
	timeout := world.TimeLeft(ctx, cmp.Or(a.timeout, k.Timeout, defaultTimeout))
	if a.isRead {
		timeout = min(timeout, cmp.Or(a.timeout, world.RetryLimit(ctx), timeout))
	}
	reported := time.Now()
	var isFailing bool // of the server, which answered the last attempt with an error of its own or not at all
	var last error
	err = world.Poll(ctx, nil, world.Condition{
		Name:     "the API server",
		Timeout:  timeout,
		MaxPause: world.LongPause,
		Check: func(ctx context.Context, _ state.Reader) error {
			if isFailing {
				// Behind a load balancer another API server may work, but every request of an
				// HTTP/2 connection reaches the same one. After the pause, since a request that
				// was canceled may still have used it before.
				utilnet.CloseIdleConnectionsFor(c.http.Transport)
			}
			var asked atomic.Int64
			ctx = context.WithValue(ctx, askedPauseKey{}, &asked)
			err := world.CallWithEtcdCheck(ctx, func(ctx context.Context) string {
				_, report, _ := c.readHealth(ctx, "/readyz")
				return report
			}, func(ctx context.Context) error { return a.do(ctx, c) })
			last = wrapRequestError(a, c.server, err)
			if last == nil {
				return nil
			}
			isTransient := isTransientReadError(last)
			isRetried := world.RetryLimit(ctx) > 0
			mayBeStarting := (!a.isRead || isRetried) && c.isRejectedAfterStart(ctx, last)
			if !(a.isRead && isRetried && isTransient) && !a.isRetryable(last) && !mayBeStarting {
				return world.Permanent(last)
			}
			// Not after a conflict, for example, or if the server is busy: a new connection is work for it.
			isFailing = mayBeStarting || isTransient && !apierrors.IsTooManyRequests(last)
			pause := time.Duration(asked.Load())
			if time.Since(reported)+pause >= progressInterval { // before a long pause, and not only after it
				reported = time.Now()
				world.ReportProgress(ctx, "still waiting for the API server: %v", last)
			}
			if pause == 0 {
				return last
			}
			return world.RetryAfter(last, pause)
		},
	})
	if world.IsPermanent(err) {
		return last
	}
	return err
}

// startupPeriod is how long after an outage an API server may reject valid requests: it serves
// before it has read the RBAC objects and the ServiceCIDRs.
const startupPeriod = 15 * time.Second

// isRejectedAfterStart reports whether the API server rejected a user or a cluster IP and has
// probably just started: a request failed a moment ago, or the server says that it is not ready. To
// say even that, it must have read the RBAC objects.
func (c *client) isRejectedAfterStart(ctx context.Context, err error) bool {
	rejected := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Details != nil {
		rejected = rejected || slices.ContainsFunc(answer.Status().Details.Causes,
			func(c metav1.StatusCause) bool { return strings.HasPrefix(c.Field, "spec.clusterIP") })
	}
	if !rejected || time.Since(time.Unix(0, c.outage.Load())) < startupPeriod {
		return rejected
	}
	status, _, err := c.readHealth(ctx, "/readyz")
	return err == nil && status != http.StatusOK && status != http.StatusUnauthorized
}

// isServerBusy reports whether the server was reached and could not answer now. An API server
// whose etcd has no leader answers 500 without a reason, a proxy in front of it 502 or 504.
func isServerBusy(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		code := answer.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError &&
			code != http.StatusNotImplemented
	}
	return neterror.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err)
}

// isTransientReadError reports whether a read may succeed later: the server was not reached or
// could not answer, and the reason is not permanent.
func isTransientReadError(err error) bool {
	var request *url.Error
	var answer apierrors.APIStatus
	switch {
	case world.IsPermanent(err), isPermanentConnectionError(err):
		return false
	case isServerBusy(err), errors.Is(err, world.ErrEtcdUnavailable):
		return true
	}
	// An answer that breaks off, or ends after the time of the request, has no error type of its own in client-go.
	isCut := strings.Contains(err.Error(), "when reading response body") || strings.Contains(err.Error(), "unexpected end of JSON input")
	return !errors.As(err, &answer) && (errors.As(err, &request) || isCut)
}

// isPermanentConnectionError reports whether a certificate was rejected, the server does not use
// TLS, or its name does not exist.
func isPermanentConnectionError(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var alert *net.OpError // TLS alerts of the server have no exported type over TCP
	var plain tls.RecordHeaderError
	var name *net.DNSError
	return errors.As(err, &untrusted) || errors.As(err, &plain) ||
		errors.As(err, &alert) && alert.Op == "remote error" &&
			alert.Err.Error() != "tls: internal error" ||
		errors.As(err, &name) && name.IsNotFound ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// isTransientWriteError reports whether a write may succeed later. NotFound may mean a namespace
// that the API server is about to create.
func isTransientWriteError(err error) bool {
	var untrusted *tls.CertificateVerificationError
	if world.IsPermanent(err) || errors.As(err, &untrusted) {
		return false
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
		metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable,
		metav1.StatusReasonUnsupportedMediaType:
		return false
	}
	return true
}
