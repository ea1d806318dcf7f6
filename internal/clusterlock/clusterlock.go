// Package clusterlock prevents two nodes from changing the cluster at the same time, for example
// from replacing their control planes. The lock is a Lease in kube-system. The holder renews it and
// deletes it at the end; an expired Lease is taken over by the next node.
package clusterlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
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
	// maxClockSkew is the tolerated difference between the clocks of two nodes.
	maxClockSkew   = 5 * time.Minute
	defaultTimeout = 30 * time.Minute
)

var errHeld = errors.New("another node holds the lock")

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

// HeldLock is a lock that this node holds.
type HeldLock struct {
	lock Lock
	e    *engine.Env
	stop func() // stops the renewals and waits for the last one

	mu      sync.Mutex
	renewed time.Time
	lost    error
}

// Hold acquires the lock, runs work and releases the lock. It returns the error of work; an
// error of the release is a warning.
func (l Lock) Hold(ctx context.Context, e *engine.Env,
	work func(ctx context.Context, held *HeldLock) error) error {
	held, err := l.Acquire(ctx, e)
	if err != nil {
		return err
	}
	defer held.stop() // also if work panics
	err = work(ctx, held)
	if releaseErr := held.Release(ctx); releaseErr != nil {
		e.Warn("deleting the Lease of this node: %v; it expires in %s", releaseErr, leaseDuration)
	}
	return err
}

// Acquire waits until no other node holds the lock, takes it and renews it until Release.
func (l Lock) Acquire(ctx context.Context, e *engine.Env) (*HeldLock, error) {
	deadline := e.World.Now().Add(cmp.Or(l.Timeout, defaultTimeout))
	for {
		found, err := l.read(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("reading the Lease %s/%s: %w", metav1.NamespaceSystem, LeaseName,
				err)
		}
		if err := l.awaitFree(ctx, e, &found, deadline); err != nil {
			return nil, err
		}
		at := e.World.Now()
		err = e.Do(ctx, l.newTakeChange(found, at))
		if err == nil {
			return l.startRenewals(ctx, e, at), nil
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
	}
}

// lease has the fields of the Lease that the lock uses; zero if there is no Lease.
type lease struct {
	holder, renewed, purpose string
	duration                 time.Duration
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
	found.renewed, _, _ = unstructured.NestedString(u.Object, "spec", "renewTime")
	found.purpose = u.GetAnnotations()[purposeAnnotation]
	seconds, _, _ := unstructured.NestedInt64(u.Object, "spec", "leaseDurationSeconds")
	found.duration = min(max(time.Duration(seconds)*time.Second, time.Second), leaseDuration)
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

// awaitFree waits until this node may take the lock, and stores the Lease to be replaced in found. A
// preview ends the wait at once.
func (l Lock) awaitFree(ctx context.Context, e *engine.Env, found *lease,
	deadline time.Time) error {
	changed := e.World.Now()
	if l.isFree(*found, changed, changed) {
		return nil
	}
	// Not External, though it depends on another node: a dry run need not wait.
	err := e.Await(ctx, world.Condition{
		Name:    found.String(),
		Timeout: max(deadline.Sub(changed), time.Second),
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
			if next != *found {
				*found, changed = next, at
			}
			if !l.isFree(next, changed, at) {
				return fmt.Errorf("%s holds the Lease %s/%s", next, metav1.NamespaceSystem,
					LeaseName)
			}
			return nil
		},
	})
	if err != nil {
		return problem.New("", err, fmt.Sprintf(
			"if that node is not running kubeadm: kubectl -n %s delete lease %s",
			metav1.NamespaceSystem, LeaseName))
	}
	switch {
	case !l.isFree(*found, changed, e.World.Now()):
		e.Say("%s holds the Lease %s/%s: this node has to wait for it", found,
			metav1.NamespaceSystem, LeaseName)
	case found.holder != "" && found.holder != l.Node:
		e.Say("taking over the expired Lease %s/%s of node %s", metav1.NamespaceSystem, LeaseName,
			untrusted.Line(found.holder))
	}
	return nil
}

// isFree reports whether this node may take the lock: no other node holds it, or the Lease has
// expired. The expiry is measured with the clock of this node from the last change of the Lease
// that it has seen. The renew time is of another clock and is used only if it is long past.
func (l Lock) isFree(h lease, changed, now time.Time) bool {
	if h.holder == "" || h.holder == l.Node || now.Sub(changed) >= h.duration {
		return true
	}
	renewed, err := time.Parse(metav1.RFC3339Micro, h.renewed)
	return err == nil && now.Sub(renewed) >= h.duration+maxClockSkew
}

// newTakeChange returns the change that makes this node the holder, unless the Lease has changed
// since it was found free.
func (l Lock) newTakeChange(found lease, at time.Time) change.MutateObject {
	return change.MutateObject{Object: l.newLease(at), As: l.As[0],
		Mutate: func(u *unstructured.Unstructured) error {
			now := parseLease(u)
			if now.holder != "" && now.holder != l.Node && now != found {
				return world.Permanent(fmt.Errorf("%w: %s", errHeld, now))
			}
			return l.setHolder(u, at)
		}}
}

// newRenewChange returns the change that renews the Lease, unless another node holds it.
func (l Lock) newRenewChange(as state.Identity, at time.Time) change.MutateObject {
	return change.MutateObject{Object: l.newLease(at), As: as,
		Mutate: func(u *unstructured.Unstructured) error {
			if now := parseLease(u); now.holder != "" && now.holder != l.Node {
				return world.Permanent(fmt.Errorf("%w: %s", errHeld, now))
			}
			return l.setHolder(u, at)
		}}
}

func (l Lock) newLease(at time.Time) *coordinationv1.Lease {
	o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: LeaseName,
		Annotations: map[string]string{purposeAnnotation: l.Purpose},
	}}
	o.SetGroupVersionKind(LeaseKind())
	seconds := int32(leaseDuration / time.Second)
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = &l.Node, &seconds
	o.Spec.AcquireTime, o.Spec.RenewTime = &metav1.MicroTime{Time: at.UTC()},
		&metav1.MicroTime{Time: at.UTC()}
	return o
}

// setHolder sets this node and the renew time on an existing Lease.
func (l Lock) setHolder(u *unstructured.Unstructured, at time.Time) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[purposeAnnotation] = l.Purpose
	u.SetAnnotations(annotations)
	renewTime := at.UTC().Format(metav1.RFC3339Micro)
	fields := map[string]any{
		"holderIdentity": l.Node, "renewTime": renewTime,
		"leaseDurationSeconds": int64(leaseDuration / time.Second),
	}
	if parseLease(u).holder != l.Node {
		transitions, _, _ := unstructured.NestedInt64(u.Object, "spec", "leaseTransitions")
		fields["acquireTime"], fields["leaseTransitions"] = renewTime,
			transitions+1
	}
	for name, value := range fields {
		if err := unstructured.SetNestedField(u.Object, value, "spec", name); err != nil {
			return err
		}
	}
	return nil
}

// startRenewals renews the lock in the background until it is released.
func (l Lock) startRenewals(ctx context.Context, e *engine.Env, at time.Time) *HeldLock {
	h := &HeldLock{lock: l, e: e, renewed: at}
	// an interrupt does not stop the work at once
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		// Poll returns when the context is canceled.
		_ = world.Poll(ctx, e.World, world.Condition{
			Name: "the release of the lock", Timeout: 24 * time.Hour,
			Check: func(ctx context.Context, _ state.Reader) error {
				h.renewIfDue(ctx)
				return errors.New("the lock is held")
			},
		})
	})
	h.stop = func() { cancel(); done.Wait() }
	return h
}

// renewIfDue renews the Lease if the last renewal was renewInterval ago.
func (h *HeldLock) renewIfDue(ctx context.Context) {
	h.mu.Lock()
	due := h.lost == nil && h.e.World.Now().Sub(h.renewed) >= renewInterval
	h.mu.Unlock()
	if due {
		h.renew(ctx)
	}
}

// renew renews the Lease with the first identity whose API server answers.
func (h *HeldLock) renew(ctx context.Context) {
	at := h.e.World.Now()
	for _, as := range h.lock.As {
		limited, cancel := context.WithTimeout(ctx, renewInterval/3)
		err := h.e.World.Do(limited, h.lock.newRenewChange(as, at))
		cancel()
		h.mu.Lock()
		switch {
		case err == nil:
			h.renewed = at
		case errors.Is(err, errHeld):
			h.lost = err
		}
		h.mu.Unlock()
		if errors.Is(err, errHeld) {
			h.e.Warn("this node has lost the lock of the cluster: its Lease expired: %v", err)
		}
		if err == nil || errors.Is(err, errHeld) {
			return
		}
	}
}

// Err returns why this node no longer holds the lock, nil while it does. Check it before a
// change that must not happen on two nodes at once.
func (h *HeldLock) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Release stops the renewals and deletes the Lease.
func (h *HeldLock) Release(ctx context.Context) error {
	h.stop()
	ctx = context.WithoutCancel(ctx) // after an interrupt too
	if h.Err() == nil && h.e.World.Now().Sub(h.renewed) >= leaseDuration/2 {
		h.renew(ctx) // so that the Lease does not expire between the next two requests
	}
	if h.Err() != nil {
		return nil
	}
	current, err := h.lock.read(ctx, h.e)
	if err != nil || current.holder != h.lock.Node {
		return err
	}
	return h.e.Do(ctx, change.DeleteObject{Ref: h.lock.ref(h.lock.As[0])})
}
