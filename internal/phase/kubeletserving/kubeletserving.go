// Package kubeletserving approves requests of kubelets for serving certificates, which
// kube-controller-manager signs but does not approve. A kubelet with serverTLSBootstrap makes them;
// whoever trusts the cluster's CA can verify its port 10250 then.
package kubeletserving

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
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
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Approve approves all pending requests that match their Node, and fails if one does not.
var Approve = engine.Phase{
	Name: "approve-kubelet-serving",
	Run: func(ctx context.Context, e *engine.Env) error {
		a := approver{}
		pending, err := a.approvePending(ctx, e)
		if err != nil {
			return err
		}
		if count := len(a.refused); count > 0 {
			return problem.New("", fmt.Errorf("%d of %d pending requests are not approved", count, pending),
				"if a Node's addresses are out of date, check its kubelet and the cloud controller manager; then re-run the command",
				"deny a request that no kubelet made: kubectl certificate deny NAME")
		}
		if pending == 0 {
			e.Say("no request for a serving certificate of a kubelet is pending")
		}
		return nil
	},
}

// Watch approves requests until ctx ends. Each request that is refused is reported once, and
// looked at again, as its Node may still be without addresses. Failures after the first look are
// warnings: the API server may be restarted.
var Watch = engine.Phase{
	Name: "approve-kubelet-serving",
	Run: func(ctx context.Context, e *engine.Env) error {
		a := approver{}
		if _, err := a.approvePending(ctx, e); err != nil {
			return err
		}
		e.Say("watching for requests; Ctrl-C ends this")
		for {
			err := e.World.Await(ctx, a.newRequest(e))
			if context.Cause(ctx) != nil || world.IsPermanent(err) {
				return err
			}
			if _, err := a.approvePending(ctx, e); err != nil && context.Cause(ctx) == nil {
				e.Warn("%v", err)
			}
		}
	},
}

// Requests are listed every listInterval. A wait for another one that ends without is repeated.
const (
	listInterval = 5 * time.Second
	watchLimit   = 24 * time.Hour
)

// approver remembers why it refused requests.
type approver struct {
	refused map[types.UID]string
}

// approvePending approves what it can and returns how many requests were pending.
func (a *approver) approvePending(ctx context.Context, e *engine.Env) (int, error) {
	as, err := e.Admin(ctx)
	if err != nil {
		return 0, err
	}
	r := e.Reader()
	requests, err := listPending(ctx, r, as)
	if err != nil {
		return 0, err
	}
	before := a.refused
	a.refused = map[types.UID]string{}
	for _, request := range requests {
		reason, err := findMismatch(ctx, r, request, as)
		if err != nil {
			return 0, err
		}
		name := untrusted.Line(request.Name)
		if reason == "" {
			e.Say("approving %s of %s", name, untrusted.Line(request.Spec.Username))
			if err := e.Do(ctx, approval(request, as)); err != nil && !apierrors.IsNotFound(err) {
				return 0, err
			}
			continue
		}
		a.refused[request.UID] = reason
		if before[request.UID] != reason {
			e.Warn("%s of user %s is not approved: %s", name,
				untrusted.Quote(request.Spec.Username), reason)
		}
	}
	return len(requests), nil
}

// newRequest holds once there is a request that was not refused, or once the Node of a refused one
// matches it.
func (a *approver) newRequest(e *engine.Env) world.Condition {
	next := e.World.Now().Add(listInterval)
	return world.Condition{
		Name:    "a kubelet to request a serving certificate",
		Timeout: watchLimit,
		Check: func(ctx context.Context, r state.Reader) error {
			if r.Now().Before(next) {
				return errNoRequest
			}
			next = r.Now().Add(listInterval)
			as, err := e.Admin(ctx)
			if err != nil {
				return world.Permanent(err)
			}
			requests, err := listPending(ctx, r, as)
			if err != nil {
				return err
			}
			for _, request := range requests {
				reason, err := findMismatch(ctx, r, request, as)
				if err != nil {
					return err
				}
				if reason == "" || reason != a.refused[request.UID] {
					return nil
				}
			}
			return errNoRequest
		},
	}
}

var errNoRequest = errors.New("no other request is pending")

// listPending lists the requests for serving certificates of kubelets that are neither approved nor
// denied, oldest first.
func listPending(ctx context.Context, r state.Reader,
	as state.Identity) ([]certv1.CertificateSigningRequest, error) {
	all, err := r.List(ctx, state.Query{As: as,
		GVK:           certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		FieldSelector: "spec.signerName=" + certv1.KubeletServingSignerName,
	})
	if err != nil {
		return nil, err
	}
	var pending []certv1.CertificateSigningRequest
	for _, u := range all {
		var one certv1.CertificateSigningRequest
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &one)
		if err != nil {
			return nil, fmt.Errorf("reading certificate signing request %s: %w",
				untrusted.Quote(u.GetName()), err)
		}
		if len(one.Status.Conditions) == 0 {
			pending = append(pending, one)
		}
	}
	slices.SortStableFunc(pending, func(a, b certv1.CertificateSigningRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return pending, nil
}

// findMismatch says why the request must not be approved; empty if it may.
func findMismatch(ctx context.Context, r state.Reader, request certv1.CertificateSigningRequest,
	as state.Identity) (string, error) {
	name, reason := nodeOf(request)
	if reason != "" {
		return reason, nil
	}
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("there is no Node %s", untrusted.Quote(name)), nil
	}
	if err != nil {
		return "", err
	}
	var node corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &node); err != nil {
		return "", fmt.Errorf("reading Node %s: %w", name, err)
	}
	return compare(request, &node), nil
}

// approval sets the condition that "kubectl certificate approve" sets, unless the request has been
// approved or denied meanwhile.
func approval(request certv1.CertificateSigningRequest, as state.Identity) change.Change {
	request.TypeMeta = metav1.TypeMeta{APIVersion: certv1.SchemeGroupVersion.String(),
		Kind: "CertificateSigningRequest"}
	return change.MutateObject{Object: &request, As: as, Subresource: "approval",
		Mutate: func(u *unstructured.Unstructured) error {
			asked, _, err := unstructured.NestedString(u.Object, "spec", "request")
			if err != nil || asked != base64.StdEncoding.EncodeToString(request.Spec.Request) {
				return errors.New("another request has its name now")
			}
			conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
			if err != nil || len(conditions) > 0 {
				return err
			}
			return unstructured.SetNestedSlice(u.Object, []any{map[string]any{
				"type":    string(certv1.CertificateApproved),
				"status":  string(corev1.ConditionTrue),
				"reason":  "KubeadmApprove",
				"message": "The names and addresses are those of the Node.",
			}}, "status", "conditions")
		}}
}
