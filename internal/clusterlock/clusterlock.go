// Package clusterlock prevents two nodes from changing the cluster at the same time, for example
// from replacing their control planes. The lock is a Lease in kube-system. The holder renews it and
// deletes it at the end; a Lease that is not renewed any more is taken over by the next node.
// docs/decisions/0043 has the reasons.
package clusterlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

const (
	// LeaseName is the name of the Lease in kube-system.
	LeaseName = "kubeadm-node-change"
	// purposeAnnotation is the annotation of the Lease that says what the holder does.
	purposeAnnotation = "kubeadm.kubernetes.io/purpose"

	// leaseDuration is longer than the restart of an API server, during which the Lease cannot be
	// renewed.
	leaseDuration = 90 * time.Second
	renewInterval = 15 * time.Second
	// confirmPause is the pause between attempts to renew a Lease that may have expired.
	confirmPause   = time.Second
	defaultTimeout = 30 * time.Minute
)

const (
	leasePath     = metav1.NamespaceSystem + "/" + LeaseName
	deleteCommand = "kubectl -n " + metav1.NamespaceSystem + " delete lease " + LeaseName
)

// ErrHeld is in the chain of the errors of a lock that another node holds.
var ErrHeld = errors.New("another node holds the lock")

// heldError is an ErrHeld whose text names the node.
type heldError struct{ error }

func (heldError) Is(target error) bool { return target == ErrHeld }

// IsOwnChange reports whether a change takes, renews or releases the lock: nothing that a command is for.
func IsOwnChange(c change.Change) bool {
	return c.Target() == state.Ref{GVK: LeaseKind(), Namespace: metav1.NamespaceSystem, Name: LeaseName}.Target()
}

// LeaseKind returns the kind of the lock's object.
func LeaseKind() schema.GroupVersionKind {
	return coordinationv1.SchemeGroupVersion.WithKind("Lease")
}

// Lock is the lock of the cluster as one node takes it.
type Lock struct {
	// Node is the name of this node. Only one run changes a node at a time, so a Lease of this node
	// is taken over at once.
	Node string
	// Purpose says what the node does, as in "upgrading its control plane to v1.37.1".
	Purpose string
	// As are the identities for requests to the API server. A renewal tries all in order: while the
	// API server of this node restarts, another one may answer.
	As      []state.Identity
	Timeout time.Duration // of the wait for other nodes; 30 minutes if zero
}

// Acquire waits until no other node holds the lock, takes it and renews it until Release.
func (l Lock) Acquire(ctx context.Context, e *engine.Env) (*HeldLock, error) {
	deadline := e.World.Now().Add(cmp.Or(l.Timeout, defaultTimeout))
	for {
		found, err := l.awaitFree(ctx, e, deadline)
		if err != nil {
			return nil, err
		}
		at := e.World.Now()
		err = e.Do(ctx, l.newTakeChange(found, at))
		if err == nil {
			return l.startRenewals(ctx, e, at), nil
		}
		if !errors.Is(err, ErrHeld) {
			return nil, err
		}
	}
}

// AwaitFree waits as Acquire does, and does not take the lock: while etcd has run out of space, that
// would be refused.
func (l Lock) AwaitFree(ctx context.Context, e *engine.Env) error {
	_, err := l.awaitFree(ctx, e, e.World.Now().Add(cmp.Or(l.Timeout, defaultTimeout)))
	return err
}

// lease has the fields of the Lease that the lock uses; zero if there is no Lease. Two values are
// equal only if nobody has written the Lease in between.
type lease struct {
	holder, purpose, version string
	acquired, renewed        string // times of the holder's clock, which are never compared with ours
}

func (l Lock) ref(as state.Identity) state.Ref {
	return state.Ref{
		GVK: LeaseKind(), Namespace: metav1.NamespaceSystem,
		Name: LeaseName, As: as,
	}
}

func (l Lock) read(ctx context.Context, e *engine.Env) (lease, error) {
	u, err := e.Object(ctx, l.ref(l.As[0]))
	if apierrors.IsNotFound(err) {
		return lease{}, nil
	}
	if err != nil {
		return lease{}, err
	}
	return parseLease(u), nil
}

func parseLease(u *unstructured.Unstructured) lease {
	var found lease
	found.holder, _, _ = unstructured.NestedString(u.Object, "spec", "holderIdentity")
	found.acquired, _, _ = unstructured.NestedString(u.Object, "spec", "acquireTime")
	found.renewed, _, _ = unstructured.NestedString(u.Object, "spec", "renewTime")
	found.purpose, found.version = u.GetAnnotations()[purposeAnnotation], u.GetResourceVersion()
	return found
}

// String names the holder of the lock and its purpose.
func (h lease) String() string {
	text := "node " + untrusted.Line(h.holder)
	if h.purpose != "" {
		text += " (" + untrusted.Line(h.purpose) + ")"
	}
	return text
}

// awaitFree waits until this node may take the lock, and returns the Lease to be replaced. A preview
// ends the wait at once.
func (l Lock) awaitFree(ctx context.Context, e *engine.Env, deadline time.Time) (lease, error) {
	found, err := l.read(ctx, e)
	if err != nil {
		return found, fmt.Errorf("reading the Lease %s: %w", leasePath, err)
	}
	changed := e.World.Now()
	if l.isFree(found, changed, changed) {
		return found, nil
	}
	e.Say("%s holds the cluster's lock, the Lease %s. This node waits until the lock is released, or "+
		"until the Lease has not been renewed for %s, for example because kubeadm was killed there. If you know that kubeadm is not running there, delete the Lease to continue at once: %s",
		found, leasePath, leaseDuration, deleteCommand)
	// Not External, though it depends on another node: a dry run need not wait.
	err = e.Await(ctx, world.Condition{
		Name:    found.String(),
		Timeout: max(deadline.Sub(changed), time.Second), MaxPause: world.LongPause,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, l.ref(l.As[0]))
			at := r.Now()
			next := lease{}
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return err
			default:
				next = parseLease(u)
			}
			if next != found {
				found, changed = next, at
			}
			if !l.isFree(next, changed, at) {
				return heldError{fmt.Errorf("%s holds the Lease %s; unless it is renewed, this node takes it "+
					"over in %s", next, leasePath,
					(leaseDuration - at.Sub(changed)).Round(time.Second))}
			}
			return nil
		},
	})
	if err != nil {
		return found, problem.New(err, "if that node is not running kubeadm: "+deleteCommand)
	}
	switch {
	case !l.isFree(found, changed, e.World.Now()):
		e.Say("%s holds the Lease %s: this node must wait for it", found, leasePath)
	case found.holder != "" && found.holder != l.Node:
		e.Say("taking over the expired Lease %s of node %s, which has not renewed it for %s",
			leasePath, untrusted.Line(found.holder), leaseDuration)
	}
	return found, nil
}

// isFree reports whether this node may take the lock: no other node holds it, or this node has seen
// for leaseDuration that the Lease does not change. What the Lease says of times is of another
// clock, which may be minutes off, and proves nothing. changed and now are compared by the monotonic
// clock, which a correction of the time does not move.
func (l Lock) isFree(h lease, changed, now time.Time) bool {
	return h.holder == "" || h.holder == l.Node || now.Sub(changed) >= leaseDuration
}

// newTakeChange returns the change that makes this node the holder, unless the Lease has changed
// since it was found free.
func (l Lock) newTakeChange(found lease, at time.Time) change.MutateObject {
	return change.MutateObject{Object: l.newLease(at, at), As: l.As[0],
		Mutate: func(u *unstructured.Unstructured) error {
			now := parseLease(u)
			if now.holder != "" && now.holder != l.Node && now != found {
				return world.Permanent(fmt.Errorf("%w: %s", ErrHeld, now))
			}
			if now.holder != l.Node {
				transitions, _, _ := unstructured.NestedInt64(u.Object, "spec", "leaseTransitions")
				if err := unstructured.SetNestedField(u.Object, transitions+1, "spec",
					"leaseTransitions"); err != nil {
					return err
				}
			}
			return l.setHolder(u, at, at)
		}}
}

// newLease returns the Lease of this node. The time at which it was acquired identifies the holder:
// a later run of the same node has another one.
func (l Lock) newLease(acquired, at time.Time) *coordinationv1.Lease {
	o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: LeaseName,
		Annotations: map[string]string{purposeAnnotation: l.Purpose},
	}}
	o.SetGroupVersionKind(LeaseKind())
	seconds := int32(leaseDuration / time.Second)
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = &l.Node, &seconds
	o.Spec.AcquireTime = &metav1.MicroTime{Time: acquired.UTC()}
	o.Spec.RenewTime = &metav1.MicroTime{Time: at.UTC()}
	return o
}

// setHolder sets this node and its times on an existing Lease.
func (l Lock) setHolder(u *unstructured.Unstructured, acquired, at time.Time) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[purposeAnnotation] = l.Purpose
	u.SetAnnotations(annotations)
	for name, value := range map[string]any{
		"holderIdentity": l.Node, "leaseDurationSeconds": int64(leaseDuration / time.Second),
		"acquireTime": leaseTime(acquired), "renewTime": leaseTime(at),
	} {
		if err := unstructured.SetNestedField(u.Object, value, "spec", name); err != nil {
			return err
		}
	}
	return nil
}

// leaseTime is a time as the API server stores it.
func leaseTime(t time.Time) string { return t.UTC().Format(metav1.RFC3339Micro) }
