package clusterlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// api is the cluster of both nodes. Waits take real time, and its clock is set by the test.
type api struct {
	*fake.World
	refuses string // requests to this server are refused

	mu   sync.Mutex
	time time.Time
}

func newAPI() *api {
	w := &api{World: fake.New(), time: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)}
	w.RemoteAPIServer = true
	return w
}

func (a *api) Now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.time
}

func (a *api) advance(by time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.time = a.time.Add(by)
}

func (a *api) Await(ctx context.Context, c world.Condition) error { return world.Poll(ctx, a, c) }

func (a *api) Do(ctx context.Context, c change.Change) error {
	a.mu.Lock()
	refuses := a.refuses
	a.mu.Unlock()
	if m, ok := c.(change.MutateObject); ok && refuses != "" && m.As.Server == refuses {
		return errors.New("connection refused")
	}
	return a.World.Do(ctx, c)
}

// events are what a node has told.
type events struct {
	mu   sync.Mutex
	text []string
}

func (s *events) has(word string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.text, "\n"), word)
}

// on is the environment of a node.
func on(a *api) (*engine.Env, *events) {
	told := &events{}
	return engine.New(engine.Env{
		World: a, Local: node.Local{Timeouts: node.Timeouts{KubernetesAPI: time.Second}},
		Emit: func(e engine.Event) {
			told.mu.Lock()
			defer told.mu.Unlock()
			told.text = append(told.text, string(e.Kind)+": "+e.Text)
		},
	}), told
}

func lockOf(name string) Lock {
	return Lock{
		Node: name, Purpose: "upgrades its control plane to v1.37.1", Wait: time.Minute,
		As: []state.Identity{{Server: "https://192.0.2.99:6443"},
			{Server: "https://192.0.2.98:6443"}},
	}
}

func leaseOf(t *testing.T, a *api) *unstructured.Unstructured {
	t.Helper()
	return a.Objects[memory.Key{
		Kind: lockOf("").ref(state.Identity{}).GVK.GroupKind(), Namespace: "kube-system",
		Name: LeaseName,
	}].DeepCopy()
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not happen", what)
}

func TestLockIsHeldDuringTheWorkAlone(t *testing.T) {
	a := newAPI()
	e, _ := on(a)
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		err := lockOf("cp1").Hold(t.Context(), e, func(context.Context) error {
			h := parseLease(leaseOf(t, a))
			if h.holder != "cp1" || h.duration != leaseDuration ||
				h.String() != "node cp1, which upgrades its control plane to v1.37.1" {
				t.Errorf("the Lease says %+v", h)
			}
			return want
		})
		if !errors.Is(err, want) || leaseOf(t, a) != nil {
			t.Errorf("%v; the Lease is %v", err, leaseOf(t, a))
		}
	}
}

func TestInterruptReleasesTheLock(t *testing.T) {
	a := newAPI()
	e, _ := on(a)
	ctx, cancel := context.WithCancel(t.Context())
	err := lockOf("cp1").Hold(ctx, e,
		func(ctx context.Context) error { cancel(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) || leaseOf(t, a) != nil {
		t.Errorf("%v; the Lease is %v", err, leaseOf(t, a))
	}
}

func TestSecondNodeWaitsForTheFirst(t *testing.T) {
	a := newAPI()
	first, _ := on(a)
	held, err := lockOf("cp1").Acquire(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second, told := on(a)
	var done sync.WaitGroup
	done.Go(func() {
		lock := lockOf("cp2")
		if err := lock.Hold(t.Context(), second,
			func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	const waits = "waiting: node cp1, which upgrades its control plane to v1.37.1"
	eventually(t, waits, func() bool { return told.has(waits) })
	if told.has("did: ") {
		t.Error("it does not wait")
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	done.Wait()
	if told.has("taking over") || leaseOf(t, a) != nil {
		t.Errorf("%q; the Lease is %v", told.text, leaseOf(t, a))
	}
}

func TestNodeThatWaitsInVainSaysForWhom(t *testing.T) {
	a := newAPI()
	first, _ := on(a)
	held, err := lockOf("cp1").Acquire(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := on(a)
	lock := lockOf("cp2")
	lock.Wait = time.Millisecond
	_, err = lock.Acquire(t.Context(), second)
	if err == nil || !strings.Contains(err.Error(), "node cp1, which upgrades") ||
		len(problem.Hints(err)) != 1 {
		t.Errorf("%v, hints %q", err, problem.Hints(err))
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// put is a Lease that a node has left, as if it had been killed.
func put(t *testing.T, a *api, holder string) {
	t.Helper()
	if err := a.World.Do(t.Context(),
		change.ApplyObject{Object: lockOf(holder).object(a.Now())}); err != nil {
		t.Fatal(err)
	}
}

func TestExpiredLockIsTakenOver(t *testing.T) {
	a := newAPI()
	put(t, a, "cp1")
	e, told := on(a)
	var done sync.WaitGroup
	done.Go(func() {
		err := lockOf("cp2").Hold(t.Context(), e, func(context.Context) error {
			if h := parseLease(leaseOf(t, a)); h.holder != "cp2" {
				t.Errorf("the Lease says %+v", h)
			}
			if n, _, _ := unstructured.NestedInt64(leaseOf(t, a).Object, "spec",
				"leaseTransitions"); n != 1 {
				t.Errorf("it says that %d nodes have held it before", n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	eventually(t, "waiting", func() bool { return told.has("waiting: node cp1") })
	a.advance(leaseDuration - time.Second)
	time.Sleep(300 * time.Millisecond)
	if told.has("did: ") {
		t.Error("it was taken over too early")
	}
	a.advance(time.Second)
	done.Wait()
	if !told.has("taking over the lock of the cluster from node cp1") {
		t.Errorf("told %q", told.text)
	}
}

func TestLockThatNeedNotBeWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		holder string
		age    time.Duration
		waits  bool
	}{
		"of this node":                {"cp2", 0, false},
		"of an hour ago":              {"cp1", time.Hour, false},
		"of a clock that is behind":   {"cp1", maxClockSkew, true},
		"of a clock that is ahead":    {"cp1", -time.Hour, true},
		"of no node, as was released": {"", 0, false},
	} {
		a := newAPI()
		put(t, a, c.holder)
		a.advance(c.age)
		h := parseLease(leaseOf(t, a))
		if free := lockOf("cp2").isFree(h, a.Now(), a.Now()); free == c.waits {
			t.Errorf("%s: free is %v", name, free)
		}
	}
}

// The Lease that has become free may have been taken by a third node since.
func TestLeaseThatHasChangedIsNotTaken(t *testing.T) {
	a := newAPI()
	put(t, a, "cp1")
	found := parseLease(leaseOf(t, a))
	a.advance(time.Second)
	put(t, a, "cp3")
	err := lockOf("cp2").take(state.Identity{}, found, a.Now()).Mutate(leaseOf(t, a))
	if !errors.Is(err, errHeld) || !strings.Contains(err.Error(), "node cp3") {
		t.Errorf("got %v", err)
	}
}

func TestLockIsRenewedAtTheServerThatAnswers(t *testing.T) {
	a := newAPI()
	e, _ := on(a)
	lock := lockOf("cp1")
	held, err := lock.Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.refuses = lock.As[0].Server
	a.mu.Unlock()
	before := held.renewedAt()
	a.advance(renewEvery)
	eventually(t, "a renewal",
		func() bool { return held.renewedAt().Equal(before.Add(renewEvery)) })
	if held.Lost() != nil {
		t.Error(held.Lost())
	}
	if err := held.Release(t.Context()); err != nil || leaseOf(t, a) != nil {
		t.Errorf("%v; the Lease is %v", err, leaseOf(t, a))
	}
}

func (h *Held) renewedAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}

func TestLostLockIsNotReleased(t *testing.T) {
	a := newAPI()
	e, told := on(a)
	held, err := lockOf("cp1").Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	put(t, a, "cp2")
	a.advance(leaseDuration)
	eventually(t, "the loss", func() bool { return held.Lost() != nil })
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if h := parseLease(leaseOf(t, a)); h.holder != "cp2" || !told.has("has lost it") {
		t.Errorf("the Lease says %+v; told %q", h, told.text)
	}
}
