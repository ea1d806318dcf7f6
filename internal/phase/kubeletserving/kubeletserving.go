// Package kubeletserving approves requests of kubelets for serving certificates, which
// kube-controller-manager signs but does not approve. A kubelet with serverTLSBootstrap makes them;
// whoever trusts the cluster's CA can verify its port 10250 then.
package kubeletserving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Approve approves all pending requests for which a kubelet needs no other evidence than what is
// node.AllowedNames and what the cluster knows, and fails if there are others.
func Approve(allowed node.AllowedNames) engine.Phase {
	return engine.Phase{Name: "approve-kubelet-serving", Run: func(ctx context.Context, e *engine.Env) error {
		a := approver{allowed: allowed}
		pending, err := a.approvePending(ctx, e)
		if err != nil {
			return err
		}
		if count := len(a.refused); count > 0 {
			return problem.New(fmt.Errorf("%d of %d pending requests are not approved", count, pending),
				"if a Node's addresses are out of date, check its kubelet and the cloud controller manager; then re-run the command",
				"to approve a request that you have verified yourself: kubectl certificate approve NAME",
				"to deny a request that did not come from a kubelet: kubectl certificate deny NAME")
		}
		if pending == 0 {
			e.Say("no kubelet's request for a serving certificate is pending")
		}
		return nil
	}}
}

// Watch approves requests until ctx ends. Each request that is refused is reported once, and
// looked at again, as its Node may still be without addresses. Failures after the first look are
// warnings: the API server may be restarted.
func Watch(allowed node.AllowedNames) engine.Phase {
	return engine.Phase{Name: "approve-kubelet-serving", Run: func(ctx context.Context, e *engine.Env) error {
		a := approver{allowed: allowed}
		if _, err := a.approvePending(ctx, e); err != nil {
			return err
		}
		e.Say("watching for requests; press Ctrl-C to stop")
		for {
			err := e.World.Await(ctx, a.newRequest(e))
			if context.Cause(ctx) != nil || world.IsPermanent(err) {
				return err
			}
			if err != nil {
				continue // there was no request in all that time
			}
			if _, err := a.approvePending(ctx, e); err != nil && context.Cause(ctx) == nil {
				e.Warn("%v", err)
			}
		}
	}}
}

// Requests are listed every listInterval, or as much less often that lists and approvals take at most a listShare of the time,
// but at least every reviewInterval: where all kubelets renew their certificates within an hour, each list has thousands.
// Those that were refused are compared with the cluster again after reviewInterval, and then after twice as long each time
// that nothing has changed, as that reads all Nodes. A wait for another request that ends without one is repeated.
const (
	listInterval      = 5 * time.Second
	listShare         = 10
	reviewInterval    = time.Minute
	maxReviewInterval = 16 * time.Minute
	watchLimit        = 24 * time.Hour
)

// approver remembers why it refused requests.
type approver struct {
	allowed  node.AllowedNames
	refused  map[types.UID]string
	reviewed time.Time     // when all of them were compared with the cluster
	pause    time.Duration // until that is done again
	next     time.Time     // when requests may be listed again
}

// setNext sets the time of the next list after one, or a whole look, that began at that time.
func (a *approver) setNext(begun, now time.Time) {
	a.next = now.Add(min(max(listInterval, listShare*now.Sub(begun)), reviewInterval))
}

// approvePending approves what it can and returns how many requests were pending. What is wrong with one request is
// the reason to refuse that one.
func (a *approver) approvePending(ctx context.Context, e *engine.Env) (int, error) {
	as, err := e.Admin(ctx)
	if err != nil {
		return 0, err
	}
	begun := e.World.Now()
	defer func() { a.setNext(begun, e.World.Now()) }()
	r := e.Reader()
	requests, err := listPending(ctx, r, as)
	if err != nil || len(requests) == 0 {
		a.refused = nil
		return 0, err
	}
	c, err := readCluster(ctx, r, as, a.allowed)
	if err != nil {
		return 0, err
	}
	before, pause := a.refused, min(2*a.pause, maxReviewInterval)
	a.refused, a.reviewed, a.pause = map[types.UID]string{}, e.World.Now(), reviewInterval
	for _, request := range requests {
		reason, err := c.findMismatch(ctx, r, request, as)
		if err != nil {
			return 0, err
		}
		if reason == "" {
			if reason, err = approve(ctx, e, request, as); err != nil {
				return 0, err
			}
		}
		if reason == "" {
			pause = reviewInterval
			continue
		}
		a.refused[request.UID] = reason
		if before[request.UID] != reason {
			pause = reviewInterval
			e.Warn("%s of user %s is not approved: %s", untrusted.Line(request.Name),
				untrusted.Quote(request.Spec.Username), reason)
		}
	}
	a.pause = max(pause, reviewInterval)
	return len(requests), nil
}

// approve shows what a request asks for, and approves it. It returns why that request could not be.
func approve(ctx context.Context, e *engine.Env, request certv1.CertificateSigningRequest,
	as state.Identity) (reason string, err error) {
	asked, err := pki.ParseRequest(request.Spec.Request)
	if err != nil {
		return "", err
	}
	e.Say("approving %s of %s for %s", untrusted.Line(request.Name), request.Spec.Username,
		strings.Join(listNames(asked), ", ")) // they have been checked
	err = e.Do(ctx, approval(request, as))
	if errors.Is(err, errReplaced) || isAnswer(err) && !apierrors.IsNotFound(err) {
		return untrusted.Line(err.Error()), nil
	}
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return "", err
}

// isAnswer reports whether err is what the API server answered about one object.
func isAnswer(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError
}

// newRequest holds once there is a request that was not refused, or once the cluster has become
// such that a refused one may be approved.
func (a *approver) newRequest(e *engine.Env) world.Condition {
	return world.Condition{
		Name:    "a kubelet to request a serving certificate",
		Timeout: watchLimit,
		Check: func(ctx context.Context, r state.Reader) error {
			if r.Now().Before(a.next) {
				return errNoRequest
			}
			as, err := e.Admin(ctx)
			if err != nil {
				return world.Permanent(err)
			}
			begun := r.Now()
			requests, err := listPending(ctx, r, as)
			a.setNext(begun, r.Now())
			if err != nil {
				return err
			}
			for _, request := range requests {
				if a.refused[request.UID] == "" {
					return nil
				}
			}
			if len(requests) == 0 || r.Now().Sub(a.reviewed) < a.pause {
				return errNoRequest
			}
			return nil
		},
	}
}

var errNoRequest = errors.New("no other request is pending")

// listPending lists the requests for serving certificates of kubelets that are neither approved nor
// denied, oldest first.
func listPending(ctx context.Context, r state.Reader,
	as state.Identity) ([]certv1.CertificateSigningRequest, error) {
	var pending []certv1.CertificateSigningRequest
	_, err := r.List(ctx, state.Query{As: as,
		GVK:           certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		FieldSelector: "spec.signerName=" + certv1.KubeletServingSignerName,
		Fields:        []string{"spec", "status.conditions"},
		Keep: func(u *unstructured.Unstructured) bool {
			var one certv1.CertificateSigningRequest
			if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &one) != nil {
				// What is left of it has no request, which is the reason to refuse it.
				one = certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(),
					UID: u.GetUID()}}
			}
			if len(one.Status.Conditions) == 0 {
				pending = append(pending, one)
			}
			return false
		}})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(pending, func(a, b certv1.CertificateSigningRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return pending, nil
}

// approval sets the condition that "kubectl certificate approve" sets, unless the request has been
// approved or denied meanwhile.
func approval(request certv1.CertificateSigningRequest, as state.Identity) change.Change {
	request.TypeMeta = metav1.TypeMeta{APIVersion: certv1.SchemeGroupVersion.String(),
		Kind: "CertificateSigningRequest"}
	return change.MutateObject{Object: &request, As: as, Subresource: "approval",
		Mutate: func(u *unstructured.Unstructured) error {
			if u.GetUID() != request.UID { // the spec of an object with this UID is immutable
				return errReplaced
			}
			conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
			if err != nil || len(conditions) > 0 {
				return err
			}
			return unstructured.SetNestedSlice(u.Object, []any{map[string]any{
				"type":    string(certv1.CertificateApproved),
				"status":  string(corev1.ConditionTrue),
				"reason":  "KubeadmApprove",
				"message": "The names and addresses belong to the Node and, as far as kubeadm knows, to nothing else.",
			}}, "status", "conditions")
		}}
}

var errReplaced = errors.New("another request has its name now")
