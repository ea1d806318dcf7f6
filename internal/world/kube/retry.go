package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// attempt is something to ask of the API server, again and again while that may help.
type attempt struct {
	as    state.Identity
	op    string           // what is asked, such as "reading Node cp1"
	again func(error) bool // whether to ask once more after this error
	reads bool             // retried as the context says, see world.Retry
	do    func(ctx context.Context, c *client) error
}

// remindEvery is how often whoever listens is told what is retried.
const remindEvery = 10 * time.Second

func (k *Cluster) try(ctx context.Context, a attempt) error {
	c, err := k.client(a.as)
	if err != nil {
		return explain(a, "", err)
	}
	begun := time.Now()
	reminded := begun
	var last error
	err = world.Poll(ctx, nil, world.Condition{
		Name:    "the API server",
		Timeout: world.Left(ctx, cmp.Or(k.Bound, defaultBound)),
		Check: func(looking context.Context, _ state.Reader) error {
			last = c.once(looking, a)
			if last == nil {
				return nil
			}
			retried := a.reads && time.Since(begun) < world.RetryLimit(ctx) && transient(last)
			patient := !a.reads || world.RetryLimit(ctx) > 0
			if !retried && !a.again(last) && !(patient && c.starting(last)) {
				return world.GiveUp(last)
			}
			if time.Since(reminded) >= remindEvery {
				reminded = time.Now()
				world.Tell(ctx, "still waiting for the API server: %v", last)
			}
			return last
		},
	})
	if world.Hopeless(err) {
		return last
	}
	return err
}

// startup is how long after an outage an API server may know neither users nor their rights: it answers before it has read
// the RBAC objects.
const startup = 15 * time.Second

// starting reports whether a refusal is probably that of an API server that has just started.
func (c *client) starting(err error) bool {
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
	return refused && time.Since(time.Unix(0, c.outage.Load())) < startup
}

func (c *client) once(ctx context.Context, a attempt) error {
	return explain(a, c.server, world.Ask(ctx, c.report, func(ctx context.Context) error { return a.do(ctx, c) }))
}

func never(error) bool { return false }

// overloaded reports whether the server was reached and could not answer just now. An API server whose etcd has no leader
// answers 500 without a reason, a proxy before it 502 or 504.
func overloaded(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		code := answer.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError && code != http.StatusNotImplemented
	}
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// transient reports whether a request that failed so may succeed later: the server was not reached or could not answer, and
// neither the connection nor the request was refused for a reason that stays.
func transient(err error) bool {
	var request *url.Error
	var answer apierrors.APIStatus
	switch {
	case world.Hopeless(err), isRefusedForGood(err):
		return false
	case overloaded(err), errors.Is(err, world.ErrWithoutEtcd):
		return true
	}
	return !errors.As(err, &answer) && errors.As(err, &request)
}

// isRefusedForGood reports whether one side does not trust the other, or does not speak TLS, or the server's name does not exist.
func isRefusedForGood(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var alert *net.OpError // TLS alerts of the server have no exported type over TCP
	var plain tls.RecordHeaderError
	var name *net.DNSError
	return errors.As(err, &untrusted) || errors.As(err, &plain) ||
		errors.As(err, &alert) && alert.Op == "remote error" && alert.Err.Error() != "tls: internal error" ||
		errors.As(err, &name) && name.IsNotFound || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// passing tells whether a write that failed so may succeed later: all but refusals. NotFound
// passes when it means a namespace that the API server is about to make.
func passing(err error) bool {
	var untrusted *tls.CertificateVerificationError
	if world.Hopeless(err) || errors.As(err, &untrusted) {
		return false
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
		metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonUnsupportedMediaType:
		return false
	}
	return true
}
