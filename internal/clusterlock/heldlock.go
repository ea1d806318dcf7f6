package clusterlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// ErrLost is in the chain of the errors of a lock that this node does not hold any more.
var ErrLost = errors.New("this node has lost the cluster's lock")

// HeldLock is a lock that this node holds.
type HeldLock struct {
	lock     Lock
	e        *engine.Env
	acquired time.Time
	stop     func() // stops the renewals and waits for the last one

	renewing sync.Mutex       // held during a renewal
	servers  []state.Identity // those of lock.As, and the API servers of other nodes
	mu       sync.Mutex
	// isOnlyServer is set if no other node has an API server: while the one of this node is down,
	// no other node can take the lock. A join, which does not take the lock, may add one.
	isOnlyServer bool
	renewed      time.Time // when the last successful renewal was begun
	tried        time.Time // when the last renewal was begun
	lost         error     // set once another node may have held the lock; it stays
	failed       error     // of the last renewal that no API server has answered
}

// Hold acquires the lock, runs work and releases the lock. It returns the error of work; an
// error of the release is a warning.
//
// The Env of work carries out changes only while this node holds the lock: also a process that was
// suspended between two changes, or that rolls back, changes nothing beside the next holder.
func (l Lock) Hold(ctx context.Context, e *engine.Env,
	work func(ctx context.Context, guarded *engine.Env) error) error {
	held, err := l.Acquire(ctx, e)
	if err != nil {
		return err
	}
	defer held.stop() // also if work panics
	guarded := *e
	guarded.World = guardedWorld{e.World, held}
	err = work(ctx, &guarded)
	if releaseErr := held.Release(ctx); releaseErr != nil {
		e.Warn("deleting the Lease of this node: %v; it expires in %s", releaseErr, leaseDuration)
	}
	return err
}

// reachLimit is how long the API servers may take to answer before work goes on without the lock. Busy ones, which ask
// for pauses, get some of these.
const reachLimit = 10 * time.Second

// HoldIfReachable is Hold if an API server answers to one of the identities, which is used first
// then. If none does, it runs work without the lock: what repairs a control plane cannot wait for it.
func (l Lock) HoldIfReachable(ctx context.Context, e *engine.Env,
	work func(context.Context, *engine.Env) error) error {
	err := e.Await(ctx, world.Condition{
		Name:    "an API server to answer, for the cluster's lock",
		Timeout: reachLimit,
		Check: func(ctx context.Context, r state.Reader) error {
			var errs []error
			for i, as := range l.As {
				_, err := r.Object(ctx, l.ref(as))
				if err == nil || apierrors.IsNotFound(err) {
					l.As = slices.Concat([]state.Identity{as}, l.As[:i], l.As[i+1:])
					return nil
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	})
	switch {
	case err == nil:
		return l.Hold(ctx, e, work)
	case ctx.Err() != nil:
		return err
	}
	e.Warn("the cluster's lock is not held: %v; do not change another control plane node "+
		"until this command has ended", err)
	return work(ctx, e)
}

// guardedWorld refuses changes once the lock is lost.
type guardedWorld struct {
	world.World
	held *HeldLock
}

func (g guardedWorld) Do(ctx context.Context, c change.Change) error {
	if err := g.held.Confirm(ctx); err != nil {
		return err
	}
	return g.World.Do(ctx, c)
}

// Confirm returns the error of HeldLock.Confirm for the work of Lock.Hold, and nil elsewhere.
func Confirm(ctx context.Context, e *engine.Env) error {
	if g, ok := e.World.(guardedWorld); ok {
		return g.held.Confirm(ctx)
	}
	return nil
}

// Commit returns an Env for a few changes that must not end half-way, such as stopping a kubelet and starting it: they are
// carried out even if the lock is lost meanwhile. It is an error if it is lost already.
func Commit(ctx context.Context, e *engine.Env) (*engine.Env, error) {
	g, isGuarded := e.World.(guardedWorld)
	if !isGuarded {
		return e, nil
	}
	own := *e
	own.World = g.World
	return &own, g.held.Confirm(ctx)
}

// startRenewals renews the lock in the background until it is released.
func (l Lock) startRenewals(ctx context.Context, e *engine.Env, at time.Time) *HeldLock {
	h := &HeldLock{lock: l, e: e, acquired: at, renewed: at, tried: at}
	h.servers = l.As
	h.findOtherServers(ctx)
	// an interrupt does not stop the work at once
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		// Poll returns when the context is canceled.
		_ = world.Poll(ctx, e.World, world.Condition{
			Name: "the release of the lock", Timeout: 24 * time.Hour,
			Check: func(ctx context.Context, _ state.Reader) error {
				h.renewAfter(ctx, renewInterval)
				return errors.New("the lock is held")
			},
		})
	})
	h.stop = func() { cancel(); done.Wait() }
	return h
}

// findOtherServers finds the API servers by which the Lease is renewed. What was known is kept if they
// cannot be read.
func (h *HeldLock) findOtherServers(ctx context.Context) {
	servers, isOnly, err := h.lock.findServers(ctx, h.e)
	if len(servers) > 0 {
		h.servers = servers
	}
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isOnlyServer = isOnly
}

// findServers returns the identities by which the Lease is renewed, and whether the API server of
// this node is the only one. kube-apiserver lists those that serve in the EndpointSlices of the
// Service kubernetes.
func (l Lock) findServers(ctx context.Context, e *engine.Env) ([]state.Identity, bool, error) {
	servers := slices.Clone(l.As)
	slicesKind := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	list, err := e.World.List(ctx, state.Query{GVK: slicesKind, As: l.As[0],
		Namespace: metav1.NamespaceDefault, LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil, false, err
	}
	for _, u := range list {
		var slice discoveryv1.EndpointSlice
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &slice) != nil ||
			len(slice.Ports) == 0 || slice.Ports[0].Port == nil {
			continue
		}
		port := strconv.Itoa(int(*slice.Ports[0].Port))
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				other := l.As[0]
				other.Server = (&url.URL{Scheme: "https", Host: net.JoinHostPort(address,
					port)}).String()
				if net.ParseIP(address) != nil && !slices.ContainsFunc(servers,
					func(i state.Identity) bool { return i.Key() == other.Key() }) {
					servers = append(servers, other)
				}
			}
		}
	}
	planes, err := e.World.List(ctx, state.Query{GVK: state.NodeKind, As: l.As[0],
		LabelSelector: node.ControlPlaneLabel})
	planes = withoutReplacements(planes)
	isOnly := len(planes) == 1 && planes[0].GetName() == l.Node && len(servers) <= len(l.As)
	return servers, isOnly, err
}

// withoutReplacements are Nodes without those that are about to take the place of another one: they are the same machine.
func withoutReplacements(nodes []unstructured.Unstructured) []unstructured.Unstructured {
	isListed := func(name string) bool {
		return slices.ContainsFunc(nodes, func(u unstructured.Unstructured) bool { return u.GetName() == name })
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(u unstructured.Unstructured) bool {
		replaced := u.GetAnnotations()[node.RenamedFromAnnotation]
		return replaced != "" && replaced != u.GetName() && isListed(replaced)
	})
}

// renewAfter renews the Lease if the last attempt was begun that long ago. Only one attempt is made
// at a time: others wait for its result.
func (h *HeldLock) renewAfter(ctx context.Context, pause time.Duration) {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	h.mu.Lock()
	due := h.lost == nil && elapsed(h.tried, h.e.World.Now()) >= pause
	h.mu.Unlock()
	if due {
		h.renew(ctx)
	}
}

// renew renews the Lease with the first identity whose API server answers.
func (h *HeldLock) renew(ctx context.Context) {
	at := h.e.World.Now()
	h.mu.Lock()
	h.tried = at
	h.mu.Unlock()
	for _, as := range h.servers {
		limited, cancel := context.WithTimeout(ctx, renewInterval/3)
		err := h.renewAt(limited, as, at)
		if err == nil && h.hasOnlyServer() {
			h.findOtherServers(limited)
		}
		cancel()
		isLost := errors.Is(err, ErrHeld)
		h.mu.Lock()
		h.failed = err
		switch {
		case err == nil:
			h.renewed = at
		case isLost && h.lost == nil:
			h.lost = err
		}
		h.mu.Unlock()
		if isLost {
			h.e.Warn("%v: %v", ErrLost, err)
		}
		if err == nil || isLost {
			return
		}
	}
}

// renewAt renews the Lease at one API server. A Lease that does not exist any more, or that another
// run has acquired since, was held by others: the error is ErrHeld.
func (h *HeldLock) renewAt(ctx context.Context, as state.Identity, at time.Time) error {
	check := func(now lease) error {
		switch {
		case now.holder != "" && now.holder != h.lock.Node:
			return world.Permanent(fmt.Errorf("%w: %s", ErrHeld, now))
		case now.holder == "" || now.acquired != leaseTime(h.acquired):
			return world.Permanent(fmt.Errorf("%w, or did: the Lease %s of this run was deleted",
				ErrHeld, leasePath))
		}
		return nil
	}
	// A MutateObject alone would create a Lease that was deleted.
	u, err := h.e.World.Object(ctx, h.lock.ref(as))
	if apierrors.IsNotFound(err) {
		return check(lease{})
	}
	if err == nil {
		err = check(parseLease(u))
	}
	if err != nil {
		return err
	}
	return h.e.World.Do(ctx, change.MutateObject{Object: h.lock.newLease(h.acquired, at), As: as,
		Mutate: func(u *unstructured.Unstructured) error {
			if err := check(parseLease(u)); err != nil {
				return err
			}
			return h.lock.setHolder(u, h.acquired, at)
		}})
}

// elapsed is the time between two readings of the clock. The monotonic clock stands still while the
// machine is suspended, and the time of day may be corrected: the one counts that says more.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// Err returns why this node no longer holds the lock, nil while it does. It asks no API server: once
// the last renewal was leaseDuration ago, another node may have taken over the lock.
func (h *HeldLock) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var why error
	ago := elapsed(h.renewed, h.e.World.Now())
	switch {
	case h.lost != nil:
		why = h.lost
	case ago >= leaseDuration && h.failed != nil:
		why = fmt.Errorf("it has not renewed the Lease %s for %s: %w", leasePath,
			ago.Round(time.Second), h.failed)
	case ago >= leaseDuration:
		why = fmt.Errorf("it has not renewed the Lease %s for %s", leasePath,
			ago.Round(time.Second))
	default:
		return nil
	}
	return problem.New(fmt.Errorf("%w: %w", ErrLost, why),
		"re-run the command: it continues where this run stopped")
}

// Confirm is an error if this node does not hold the lock any more. If the Lease has not been renewed
// for too long, it asks the API servers whether the Lease is still that of this run. Where the
// only one is that of this node, no answer means that no other node can have taken the lock.
func (h *HeldLock) Confirm(ctx context.Context) error {
	if err := h.Err(); err == nil || h.isLost() {
		return err
	}
	if h.hasOnlyServer() {
		if h.renewAfter(ctx, renewInterval); !h.isLost() {
			return nil
		}
		return h.Err()
	}
	err := h.e.Await(ctx, world.Condition{
		Name:    "an API server to confirm that this node still holds the cluster's lock",
		Timeout: cmp.Or(h.e.Local.Timeouts.KubernetesAPI, time.Minute),
		Check: func(ctx context.Context, _ state.Reader) error {
			h.renewAfter(ctx, confirmPause)
			if err := h.Err(); err != nil && !h.isLost() {
				return err
			}
			return nil
		},
	})
	return cmp.Or(h.Err(), err)
}

func (h *HeldLock) hasOnlyServer() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isOnlyServer
}

func (h *HeldLock) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost != nil
}

// Release stops the renewals and deletes the Lease.
func (h *HeldLock) Release(ctx context.Context) error {
	h.stop()
	ctx = context.WithoutCancel(ctx) // after an interrupt too
	// so that the Lease does not expire between the next two requests
	h.renewAfter(ctx, leaseDuration/2)
	if h.isLost() {
		return nil
	}
	as := h.findServer(ctx)
	current, err := Lock{As: []state.Identity{as}}.read(ctx, h.e)
	if err != nil || current.holder != h.lock.Node || current.acquired != leaseTime(h.acquired) {
		return err
	}
	return h.e.Do(ctx, change.DeleteObject{Ref: h.lock.ref(as)})
}

// findServer returns the first identity whose API server answers: the work may have moved the one by which the lock was
// taken. If none does, it is that one.
func (h *HeldLock) findServer(ctx context.Context) state.Identity {
	for _, as := range h.servers {
		limited, cancel := context.WithTimeout(ctx, renewInterval/3)
		_, err := h.e.World.Object(limited, h.lock.ref(as))
		cancel()
		if err == nil || apierrors.IsNotFound(err) {
			return as
		}
	}
	return h.lock.As[0]
}
