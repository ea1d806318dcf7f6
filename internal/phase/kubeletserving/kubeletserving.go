// Package kubeletserving approves requests of kubelets for serving certificates, which
// kube-controller-manager signs but does not approve. A kubelet with serverTLSBootstrap makes them;
// whoever trusts the cluster's CA can verify its port 10250 then.
package kubeletserving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// approver knows the pending requests, and remembers why it refused some.
type approver struct {
	allowed  node.AllowedNames
	pending  map[string]certv1.CertificateSigningRequest // by name
	refused  map[types.UID]string
	reviewed time.Time     // when all of them were compared with the cluster
	pause    time.Duration // until that is done again
	watch    watchState
}

// approvePending lists the pending requests, approves what it can and returns how many there were.
func (a *approver) approvePending(ctx context.Context, e *engine.Env) (int, error) {
	as, err := e.Admin(ctx)
	if err != nil {
		return 0, err
	}
	if err := a.list(ctx, e.Reader(), as); err != nil {
		return 0, err
	}
	count := len(a.pending)
	return count, a.decide(ctx, e, as)
}

// decide approves what it can of the pending requests. What is wrong with one request is the reason to refuse that one.
func (a *approver) decide(ctx context.Context, e *engine.Env, as state.Identity) error {
	if len(a.pending) == 0 {
		a.refused = nil
		return nil
	}
	r := e.Reader()
	c, err := readCluster(ctx, r, as, a.allowed)
	if err != nil {
		return err
	}
	before, pause := a.refused, min(2*a.pause, maxReviewInterval)
	a.refused, a.reviewed, a.pause = map[types.UID]string{}, e.World.Now(), reviewInterval
	for _, request := range a.oldestFirst() {
		reason, err := c.findMismatch(ctx, r, request, as)
		if err == nil && reason == "" {
			reason, err = approve(ctx, e, request, as)
		}
		if err != nil {
			for uid, earlier := range before { // those after it are not new for the failure of this one
				if a.refused[uid] == "" && uid != request.UID {
					a.refused[uid] = earlier
				}
			}
			return err
		}
		if reason == "" {
			pause = reviewInterval
			a.forget(request)
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
	return nil
}

// oldestFirst returns the pending requests.
func (a *approver) oldestFirst() []certv1.CertificateSigningRequest {
	return slices.SortedFunc(maps.Values(a.pending), func(a, b certv1.CertificateSigningRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
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

// query selects the requests for serving certificates of kubelets.
func query(as state.Identity) state.Query {
	return state.Query{As: as, GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		FieldSelector: "spec.signerName=" + certv1.KubeletServingSignerName, Fields: []string{"spec", "status.conditions"}}
}

// list finds the requests that are neither approved nor denied.
func (a *approver) list(ctx context.Context, r state.Reader, as state.Identity) error {
	pending, version := map[string]certv1.CertificateSigningRequest{}, ""
	q := query(as)
	q.OnVersion = func(listed string) { version = listed }
	q.Keep = func(u *unstructured.Unstructured) bool {
		if one := toRequest(u); len(one.Status.Conditions) == 0 {
			pending[one.Name] = one
		}
		return false
	}
	if _, err := r.List(ctx, q); err != nil {
		return err
	}
	a.pending = pending
	a.watch.version, a.watch.approved = version, nil
	return nil
}

func toRequest(u *unstructured.Unstructured) (one certv1.CertificateSigningRequest) {
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &one) != nil {
		// What is left of it has no request, which is the reason to refuse it.
		one = certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID()}}
	}
	return one
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
