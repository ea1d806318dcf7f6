package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// attempt is something to ask of the API server, again and again while that may help.
type attempt struct {
	as    change.Identity
	op    string           // what is asked, such as "reading Node cp1"
	again func(error) bool // whether to ask once more after this error
	do    func(ctx context.Context, c *client) error
}

func (k *Cluster) try(ctx context.Context, a attempt) error {
	c, err := k.client(a.as)
	if err != nil {
		return explain(a, "", err)
	}
	var last error
	err = world.Poll(ctx, nil, world.Condition{
		Name:    "the API server",
		Timeout: world.Left(ctx, cmp.Or(k.Bound, defaultBound)),
		Check: func(ctx context.Context, _ change.Reader) error {
			last = c.once(ctx, a)
			if last != nil && !a.again(last) {
				return world.GiveUp(last)
			}
			return last
		},
	})
	if world.Hopeless(err) {
		return last
	}
	return err
}

func (c *client) once(ctx context.Context, a attempt) error {
	return explain(a, c.server, world.Ask(ctx, c.report, func(ctx context.Context) error { return a.do(ctx, c) }))
}

func never(error) bool { return false }

// overloaded tells whether the server was reached and could not answer just now.
func overloaded(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonTooManyRequests, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonInternalError, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout:
		return true
	}
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
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
