package kubeletserving

import (
	"cmp"
	"context"
	"errors"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// A comparison with the cluster reads all Nodes. Where requests keep coming, as when all kubelets renew their certificates
// within an hour, they are decided together, so that this takes at most a decideShare of the time, but at least every
// reviewInterval. Requests that were refused are compared again after reviewInterval, and then after twice as long each time
// that nothing has changed.
const (
	decideInterval    = time.Second
	decideShare       = 10
	collectTime       = 200 * time.Millisecond // after a new request, for others that are decided together with it
	reviewInterval    = time.Minute
	maxReviewInterval = 16 * time.Minute
	waitLimit         = 24 * time.Hour // a wait for another request that ends without one is repeated
)

// The API server is asked to end a watch after about watchLimit. One that ends within minWatch without an event counts as a
// failure, after which the next one begins later each time; after maxFailures in a row, requests are listed before each.
// Without the right to watch, requests are listed every listInterval, or less often, as they are decided.
const (
	watchLimit   = 7 * time.Minute
	minWatch     = 2 * time.Second
	listInterval = 5 * time.Second
	maxBackOff   = time.Minute
	maxFailures  = 5
)

// Watch approves requests until ctx ends. Each request that is refused is reported once, and
// looked at again, as its Node may still be without addresses. Failures after the first look are
// warnings: the API server may be restarted.
func Watch(allowed node.AllowedNames) engine.Phase {
	return engine.Phase{Name: "approve-kubelet-serving", Run: func(ctx context.Context, e *engine.Env) error {
		a := approver{allowed: allowed}
		begun := e.World.Now()
		if _, err := a.approvePending(ctx, e); err != nil {
			return err
		}
		a.watch.setNext(begun, e.World.Now(), decideInterval)
		e.Say("watching for requests; press Ctrl-C to stop")
		for {
			err := e.World.Await(ctx, a.newRequest(e))
			if context.Cause(ctx) != nil || world.IsPermanent(err) {
				return err
			}
			if err != nil {
				continue // there was no request in all that time
			}
			as, err := e.Admin(ctx)
			if err != nil {
				return err
			}
			begun := e.World.Now()
			err = a.decide(ctx, e, as)
			if context.Cause(ctx) != nil {
				continue // Await returns the reason
			}
			if err != nil {
				a.watch.fail(e, err)
				continue
			}
			a.watch.setNext(begun, e.World.Now(), decideInterval)
		}
	}}
}

// watchState is how far the watch of requests is.
type watchState struct {
	version  string             // to watch from; empty if they have to be listed
	approved map[types.UID]bool // of which the watch has not seen it yet
	started  time.Time          // when the API server accepted the last watch; zero if it did not
	next     time.Time          // when the API server may be asked again
	failures int                // in a row
	reported string             // what kind of failure was reported last, if no watch has succeeded since
}

// setNext sets the time of the next request to the API server after some that began at that time.
func (w *watchState) setNext(begun, now time.Time, least time.Duration) {
	w.next = now.Add(min(max(least, decideShare*now.Sub(begun)), reviewInterval))
}

// backOff waits longer after each failure.
func (w *watchState) backOff(now time.Time) {
	pause := min(time.Second<<min(w.failures, 6), maxBackOff)
	w.failures++
	w.next = now.Add(world.Spread(pause))
}

// fail reports the first failure of its kind in a row.
func (w *watchState) fail(e *engine.Env, err error) {
	w.backOff(e.World.Now())
	kind := "unreachable" // the texts of such failures differ in ports
	switch {
	case errors.Is(err, errShortWatch):
		kind = "ended at once"
	case isAnswer(err):
		kind = "refused " + string(apierrors.ReasonForError(err))
	}
	if kind != w.reported {
		w.reported = kind
		e.Warn("%v; kubeadm keeps trying", err)
	}
}

func (w *watchState) succeed() { w.failures, w.reported = 0, "" }

// newRequest holds once there is a request that was not refused, or once the cluster may have become
// such that a refused one can be approved.
func (a *approver) newRequest(e *engine.Env) world.Condition {
	return world.Condition{
		Name:    "a kubelet to request a serving certificate",
		Timeout: waitLimit,
		Check: func(ctx context.Context, r state.Reader) error {
			if r.Now().Before(a.watch.next) {
				return errNoRequest
			}
			as, err := e.Admin(ctx)
			if err != nil {
				return world.Permanent(err)
			}
			begun := r.Now()
			if a.watch.version == "" {
				if err := a.list(ctx, r, as); err != nil {
					a.failUnlessEnded(ctx, e, err)
					return err
				}
			}
			if a.canDecide(r.Now()) {
				return nil
			}
			listed := r.Now()
			isNew, err := a.watchRequests(ctx, r, as)
			lasted := !a.watch.started.IsZero() && r.Now().Sub(a.watch.started) >= minWatch
			switch {
			case apierrors.IsForbidden(err):
				a.watch.succeed() // the API server has answered the list
				a.watch.version = ""
				e.WarnOnce("%v; kubeadm lists the requests now and then until the user may watch them", err)
				a.watch.setNext(begun, listed, listInterval)
			case isNew: // whatever ended the watch then
				a.watch.succeed()
			case lasted:
				a.watch.succeed()
				if err != nil || a.watch.version == "" {
					a.watch.backOff(r.Now())
				}
			case err == nil && a.watch.version == "":
				a.watch.backOff(r.Now()) // an API server that has just started has no old versions
			default:
				if err == nil {
					err = errShortWatch
				}
				a.failUnlessEnded(ctx, e, err)
				if a.watch.failures >= maxFailures {
					a.watch.version = "" // a proxy may not be able to forward watches
				}
			}
			if world.IsPermanent(err) {
				return err
			}
			if a.canDecide(r.Now()) {
				return nil
			}
			return cmp.Or(err, errNoRequest)
		},
	}
}

var (
	errNoRequest  = errors.New("no other request is pending")
	errShortWatch = errors.New("the API server ends watches of CertificateSigningRequest objects at once")
)

// failUnlessEnded is no failure if the user ends the command.
func (a *approver) failUnlessEnded(ctx context.Context, e *engine.Env, err error) {
	if ctx.Err() == nil && !world.IsPermanent(err) {
		a.watch.fail(e, err)
	}
}

// canDecide reports whether there is a request that was not refused, or whether it is time to look at the others again.
func (a *approver) canDecide(now time.Time) bool {
	for _, request := range a.pending {
		if a.refused[request.UID] == "" {
			return true
		}
	}
	return len(a.pending) > 0 && now.Sub(a.reviewed) >= a.pause
}

// watchRequests keeps the pending requests up to date until there is another one, or until it is time to look at those
// that were refused again.
func (a *approver) watchRequests(ctx context.Context, r state.Reader, as state.Identity) (isNew bool, err error) {
	limit := world.Spread(watchLimit)
	if len(a.pending) > 0 {
		limit = min(limit, max(a.pause-r.Now().Sub(a.reviewed), 2*minWatch))
	}
	a.watch.started = time.Time{}
	a.watch.version, err = r.Watch(ctx, state.Watch{Query: query(as), Version: a.watch.version, Timeout: limit, Linger: collectTime,
		OnStart: func() { a.watch.started = r.Now() },
		OnEvent: func(u *unstructured.Unstructured, isDeleted bool) bool {
			isNew = a.update(toRequest(u), isDeleted) || isNew
			return !isNew
		}})
	return isNew, err
}

// update reports whether a change of a request has resulted in one that has to be decided.
func (a *approver) update(request certv1.CertificateSigningRequest, isDeleted bool) bool {
	if isDeleted || len(request.Status.Conditions) > 0 {
		delete(a.pending, request.Name)
		delete(a.watch.approved, request.UID)
		delete(a.refused, request.UID)
		return false
	}
	if a.watch.approved[request.UID] { // a change from before
		return false
	}
	a.pending[request.Name] = request
	return a.refused[request.UID] == ""
}

// forget removes a request that was approved, or that no longer exists.
func (a *approver) forget(request certv1.CertificateSigningRequest) {
	delete(a.pending, request.Name)
	if a.watch.approved == nil {
		a.watch.approved = map[types.UID]bool{}
	}
	a.watch.approved[request.UID] = true
}
