// Package clusterlock keeps two nodes from changing the cluster at the same time, such as from
// replacing their control planes. The lock is a Lease in kube-system. Its holder renews it while
// it works and deletes it at the end; a Lease that was not renewed in time is taken over by the
// next node.
package clusterlock

import (
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
	// purposeAnnotation says on the Lease what its holder does.
	purposeAnnotation = "kubeadm.kubernetes.io/purpose"

	// leaseDuration is longer than the restart of an API server takes, during which the Lease
	// cannot be renewed.
	leaseDuration = 90 * time.Second
	renewEvery    = 15 * time.Second
	// maxClockSkew is how much the clocks of two nodes may differ where times of both are
	// compared.
	maxClockSkew = 5 * time.Minute
	// defaultWait is how long another node may take.
	defaultWait = 30 * time.Minute
)

var errHeld = errors.New("another node holds the lock")

// LeaseKind is the kind of the lock's object.
func LeaseKind() schema.GroupVersionKind {
	return coordinationv1.SchemeGroupVersion.WithKind("Lease")
}

// Lock says who takes the lock, and why.
type Lock struct {
	// name of this node. Only one run of this program changes a node at a time, so its Lease is
	// its own
	Node    string
	Purpose string // completes "node cp1, which …", such as "upgrades its control plane to v1.37.1"
	// As are the identities to ask the API server with. To renew the Lease all are tried in order:
	// while the API server of this node restarts, another one may answer.
	As   []state.Identity
	Wait time.Duration // for other nodes, at most; half an hour if it is zero
}

// Held is a lock that this node holds.
type Held struct {
	lock Lock
	e    *engine.Env
	stop func() // ends the renewals, and waits for the last one

	mu      sync.Mutex
	renewed time.Time
	lost    error
}

// Hold waits for the lock, does the work and releases the lock, whatever comes of the work.
func (l Lock) Hold(ctx context.Context, e *engine.Env, work func(ctx context.Context) error) error {
	held, err := l.Acquire(ctx, e)
	if err != nil {
		return err
	}
	err = work(ctx)
	if unreleased := held.Release(ctx); unreleased != nil {
		e.Warn("the lock of this node expires in %s, since it could not be released: %v",
			leaseDuration, unreleased)
	}
	return err
}

// Acquire waits until no other node holds the lock, takes it and keeps renewing it.
func (l Lock) Acquire(ctx context.Context, e *engine.Env) (*Held, error) {
	limit := e.World.Now().Add(l.wait())
	for {
		now, err := l.read(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("looking whether another node holds the lock of the cluster: %w",
				err)
		}
		if err := l.awaitFree(ctx, e, &now, limit); err != nil {
			return nil, err
		}
		at := e.World.Now()
		err = e.Do(ctx, l.take(l.As[0], now, at))
		if err == nil {
			return l.keep(ctx, e, at), nil
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
	}
}

func (l Lock) wait() time.Duration {
	if l.Wait > 0 {
		return l.Wait
	}
	return defaultWait
}

// lease is what counts of the Lease; zero for none.
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

// String says who holds the lock and what for.
func (h lease) String() string {
	text := "node " + untrusted.Line(h.holder)
	if h.purpose != "" {
		text += ", which " + untrusted.Line(h.purpose)
	}
	return text
}

// awaitFree waits until the lock is free for this node, and puts the Lease that is to be replaced
// into now.
func (l Lock) awaitFree(ctx context.Context, e *engine.Env, now *lease, limit time.Time) error {
	seen := e.World.Now()
	if l.isFree(*now, seen, seen) {
		return nil
	}
	first := now.String()
	err := e.Await(ctx, world.Condition{
		Name:     first,
		Timeout:  max(limit.Sub(seen), time.Second),
		External: true,
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
			if next != *now {
				*now, seen = next, at
			}
			if !l.isFree(next, seen, at) {
				return fmt.Errorf("%s still renews the Lease %s/%s", next, metav1.NamespaceSystem,
					LeaseName)
			}
			return nil
		},
	})
	if err != nil {
		return problem.New("", err, fmt.Sprintf(
			"if that node does nothing of the kind any more: kubectl -n %s delete lease %s",
			metav1.NamespaceSystem, LeaseName))
	}
	if now.holder != "" && now.holder != l.Node {
		e.Say("taking over the lock of the cluster from node %s, which has not renewed it in time",
			untrusted.Line(now.holder))
	}
	return nil
}

// isFree reports whether this node may take the lock: no other node holds it, or the holder has
// not renewed it for as long as it said. That is measured with the clock of this node from when
// the Lease was seen first; times on the Lease are those of another clock, and count only where
// they are long past.
func (l Lock) isFree(h lease, seen, now time.Time) bool {
	if h.holder == "" || h.holder == l.Node || now.Sub(seen) >= h.duration {
		return true
	}
	renewed, err := time.Parse(metav1.RFC3339Micro, h.renewed)
	return err == nil && now.Sub(renewed) >= h.duration+maxClockSkew
}

// take makes the Lease this node's, if it is free or still the one that was found to be free.
func (l Lock) take(as state.Identity, found lease, at time.Time) change.MutateObject {
	return change.MutateObject{Object: l.object(at), As: as,
		Mutate: func(u *unstructured.Unstructured) error {
			now := parseLease(u)
			if now.holder != "" && now.holder != l.Node && now != found {
				return world.Permanent(fmt.Errorf("%w: %s", errHeld, now))
			}
			return l.write(u, at)
		}}
}

// renew makes the Lease newer, if it is still this node's.
func (l Lock) renew(as state.Identity, at time.Time) change.MutateObject {
	return change.MutateObject{Object: l.object(at), As: as,
		Mutate: func(u *unstructured.Unstructured) error {
			if now := parseLease(u); now.holder != "" && now.holder != l.Node {
				return world.Permanent(fmt.Errorf("%w: %s", errHeld, now))
			}
			return l.write(u, at)
		}}
}

func (l Lock) object(at time.Time) *coordinationv1.Lease {
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

// write states this node and the time on a Lease that exists.
func (l Lock) write(u *unstructured.Unstructured, at time.Time) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[purposeAnnotation] = l.Purpose
	u.SetAnnotations(annotations)
	when := at.UTC().Format(metav1.RFC3339Micro)
	fields := map[string]any{
		"holderIdentity": l.Node, "renewTime": when,
		"leaseDurationSeconds": int64(leaseDuration / time.Second),
	}
	if parseLease(u).holder != l.Node {
		changes, _, _ := unstructured.NestedInt64(u.Object, "spec", "leaseTransitions")
		fields["acquireTime"], fields["leaseTransitions"] = when, changes+1
	}
	for name, value := range fields {
		if err := unstructured.SetNestedField(u.Object, value, "spec", name); err != nil {
			return err
		}
	}
	return nil
}

// keep renews the lock until it is released.
func (l Lock) keep(ctx context.Context, e *engine.Env, at time.Time) *Held {
	h := &Held{lock: l, e: e, renewed: at}
	// an interrupt does not end the work at once
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		// It ends with the context.
		_ = world.Poll(ctx, e.World, world.Condition{
			Name: "the end of the work", Timeout: 24 * time.Hour,
			Check: func(ctx context.Context, _ state.Reader) error {
				h.renewIfDue(ctx)
				return errors.New("it is still under way")
			},
		})
	})
	h.stop = func() { cancel(); done.Wait() }
	return h
}

// renewIfDue renews the Lease where the last renewal was some time ago, at the first API server
// that lets it.
func (h *Held) renewIfDue(ctx context.Context) {
	h.mu.Lock()
	due := h.lost == nil && h.e.World.Now().Sub(h.renewed) >= renewEvery
	h.mu.Unlock()
	if due {
		h.renew(ctx)
	}
}

func (h *Held) renew(ctx context.Context) {
	at := h.e.World.Now()
	for _, as := range h.lock.As {
		limited, cancel := context.WithTimeout(ctx, renewEvery/3)
		err := h.e.World.Do(limited, h.lock.renew(as, at))
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
			h.e.Warn("this node could not renew its lock in time, and has lost it: %v", err)
		}
		if err == nil || errors.Is(err, errHeld) {
			return
		}
	}
}

// Lost returns why this node no longer holds the lock, nil while it does. Look at it before a
// change that must not happen on two nodes at once.
func (h *Held) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Release ends the renewals and deletes the Lease, so that another node need not wait.
func (h *Held) Release(ctx context.Context) error {
	h.stop()
	ctx = context.WithoutCancel(ctx) // also after an interrupt
	if h.Lost() == nil && h.e.World.Now().Sub(h.renewed) >= leaseDuration/2 {
		h.renew(ctx) // so that no other node takes the lock over between the next two requests
	}
	if h.Lost() != nil {
		return nil
	}
	now, err := h.lock.read(ctx, h.e)
	if err != nil || now.holder != h.lock.Node {
		return err
	}
	return h.e.Do(ctx, change.DeleteObject{Ref: h.lock.ref(h.lock.As[0])})
}
