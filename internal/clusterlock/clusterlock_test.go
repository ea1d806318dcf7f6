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
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// api is the cluster of both nodes. Waits take real time, but the test sets its clock.
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

func (a *api) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	a.mu.Lock()
	refuses := a.refuses
	a.mu.Unlock()
	if refuses != "" && ref.As.Server == refuses {
		return nil, errors.New("connection refused")
	}
	return a.World.Object(ctx, ref)
}

func (a *api) Do(ctx context.Context, c change.Change) error {
	a.mu.Lock()
	refuses := a.refuses
	a.mu.Unlock()
	if m, ok := c.(change.MutateObject); ok && refuses != "" && m.As.Server == refuses {
		return errors.New("connection refused")
	}
	return a.World.Do(ctx, c)
}

// recordedEvents are the events of a node.
type recordedEvents struct {
	mu   sync.Mutex
	text []string
}

func (s *recordedEvents) has(word string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.text, "\n"), word)
}

// newEnv returns an Env of a node and its events.
func newEnv(w world.World) (*engine.Env, *recordedEvents) {
	recorded := &recordedEvents{}
	return engine.New(engine.Env{
		World: w, Local: node.Local{Timeouts: node.Timeouts{KubernetesAPI: time.Second}},
		Emit: func(e engine.Event) {
			recorded.mu.Lock()
			defer recorded.mu.Unlock()
			recorded.text = append(recorded.text, string(e.Kind)+": "+e.Text)
		},
	}), recorded
}

func newLock(name string) Lock {
	return Lock{
		Node: name, Purpose: "upgrading its control plane to v1.37.1", Timeout: time.Minute,
		As: []state.Identity{{Server: "https://192.0.2.99:6443"},
			{Server: "https://192.0.2.98:6443"}},
	}
}

func readLease(t *testing.T, a *api) *unstructured.Unstructured {
	t.Helper()
	return a.Objects[memory.Key{
		Kind: newLock("").ref(state.Identity{}).GVK.GroupKind(), Namespace: "kube-system",
		Name: LeaseName,
	}].DeepCopy()
}

// waitUntil waits until the condition is met.
func waitUntil(t *testing.T, what string, met func() bool) {
	t.Helper()
	for range 500 {
		if met() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

func TestHoldReleasesLock(t *testing.T) {
	a := newAPI()
	e, _ := newEnv(a)
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		err := newLock("cp1").Hold(t.Context(), e, func(context.Context, *engine.Env) error {
			h := parseLease(readLease(t, a))
			if h.holder != "cp1" || h.String() != "node cp1 (upgrading its control plane to v1.37.1)" {
				t.Errorf("the Lease says %+v", h)
			}
			return want
		})
		if !errors.Is(err, want) || readLease(t, a) != nil {
			t.Errorf("%v; the Lease is %v", err, readLease(t, a))
		}
	}
}

func TestInterruptReleasesLock(t *testing.T) {
	a := newAPI()
	e, _ := newEnv(a)
	ctx, cancel := context.WithCancel(t.Context())
	err := newLock("cp1").Hold(ctx, e,
		func(ctx context.Context, _ *engine.Env) error { cancel(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) || readLease(t, a) != nil {
		t.Errorf("%v; the Lease is %v", err, readLease(t, a))
	}
}

func TestSecondNodeWaitsForFirst(t *testing.T) {
	a := newAPI()
	first, _ := newEnv(a)
	held, err := newLock("cp1").Acquire(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second, recorded := newEnv(a)
	var done sync.WaitGroup
	done.Go(func() {
		lock := newLock("cp2")
		if err := lock.Hold(t.Context(), second,
			func(context.Context, *engine.Env) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	const waits = "waitStarted: node cp1 (upgrading its control plane to v1.37.1)"
	waitUntil(t, waits, func() bool { return recorded.has(waits) })
	if !recorded.has("has not been renewed for 1m30s") ||
		!recorded.has("kubectl -n kube-system delete lease kubeadm-node-change") {
		t.Errorf("it does not say for how long: %q", recorded.text)
	}
	if recorded.has("changeDone: ") {
		t.Error("it did not wait")
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	done.Wait()
	if recorded.has("taking over") || readLease(t, a) != nil {
		t.Errorf("%q; the Lease is %v", recorded.text, readLease(t, a))
	}
}

func TestTimeoutErrorNamesHolder(t *testing.T) {
	a := newAPI()
	first, _ := newEnv(a)
	held, err := newLock("cp1").Acquire(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := newEnv(a)
	lock := newLock("cp2")
	lock.Timeout = time.Millisecond
	_, err = lock.Acquire(t.Context(), second)
	if err == nil || !strings.Contains(err.Error(), "node cp1 (upgrading") ||
		len(problem.Hints(err)) != 1 {
		t.Errorf("%v, hints %q", err, problem.Hints(err))
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// putLease creates the Lease of a node that was killed.
func putLease(t *testing.T, a *api, holder string) {
	t.Helper()
	if err := a.World.Do(t.Context(),
		change.ApplyObject{Object: newLock(holder).newLease(a.Now(), a.Now())}); err != nil {
		t.Fatal(err)
	}
}

// A dry run changes nothing, so it neither waits for another node nor takes its Lease.
func TestDryRunDoesNotWait(t *testing.T) {
	a := newAPI()
	putLease(t, a, "cp1")
	e, said := newEnv(dryrun.New(a, "", dryrun.Paths{}))
	done := false
	if err := newLock("cp2").Hold(t.Context(), e,
		func(context.Context, *engine.Env) error { done = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if !done || !said.has("node cp1 (upgrading its control plane to v1.37.1) holds the Lease") {
		t.Errorf("work was done: %t; it said %q", done, said.text)
	}
	if holder := parseLease(readLease(t, a)).holder; holder != "cp1" {
		t.Errorf("the Lease belongs to %q", holder)
	}
}

func TestExpiredLeaseIsTakenOver(t *testing.T) {
	a := newAPI()
	putLease(t, a, "cp1")
	e, recorded := newEnv(a)
	var done sync.WaitGroup
	done.Go(func() {
		err := newLock("cp2").Hold(t.Context(), e, func(context.Context, *engine.Env) error {
			if h := parseLease(readLease(t, a)); h.holder != "cp2" {
				t.Errorf("the Lease says %+v", h)
			}
			if n, _, _ := unstructured.NestedInt64(readLease(t, a).Object, "spec",
				"leaseTransitions"); n != 1 {
				t.Errorf("leaseTransitions is %d", n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	waitUntil(t, "waiting", func() bool { return recorded.has("waitStarted: node cp1") })
	a.advance(leaseDuration - time.Second)
	time.Sleep(300 * time.Millisecond)
	if recorded.has("changeDone: ") {
		t.Error("it was taken over too early")
	}
	a.advance(time.Second)
	done.Wait()
	if !recorded.has("taking over the expired Lease kube-system/kubeadm-node-change of node cp1") {
		t.Errorf("events are %q", recorded.text)
	}
}

// Only what this node has observed counts: the clock of the holder may be minutes ahead or behind.
func TestIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		holder        string
		age, observed time.Duration
		waits         bool
	}{
		"of this node":                     {"cp2", 0, 0, false},
		"of no node, as was released":      {"", 0, 0, false},
		"of an hour ago":                   {"cp1", time.Hour, 0, true},
		"of a clock that is behind":        {"cp1", 7 * time.Minute, 0, true},
		"of a clock that is ahead":         {"cp1", -time.Hour, 0, true},
		"unchanged for less than 90 s":     {"cp1", time.Hour, leaseDuration - 1, true},
		"unchanged for 90 s":               {"cp1", 0, leaseDuration, false},
		"of a clock ahead, unchanged":      {"cp1", -time.Hour, leaseDuration, false},
		"that says another lease duration": {"short", time.Hour, time.Minute, true},
	} {
		a := newAPI()
		lease := newLock(c.holder).newLease(a.Now(), a.Now())
		if c.holder == "short" {
			*lease.Spec.LeaseDurationSeconds = 1
		}
		if err := a.World.Do(t.Context(), change.ApplyObject{Object: lease}); err != nil {
			t.Fatal(err)
		}
		a.advance(c.age)
		changed := a.Now()
		a.advance(c.observed)
		h := parseLease(readLease(t, a))
		if free := newLock("cp2").isFree(h, changed, a.Now()); free == c.waits {
			t.Errorf("%s: free is %v", name, free)
		}
	}
}

// The waiting node counts with the monotonic clock: a corrected time does not shorten its wait.
func TestCorrectedClockDoesNotShortenWait(t *testing.T) {
	start := time.Now()
	if corrected := start.Add(time.Second); newLock("cp2").isFree(lease{holder: "cp1"}, start,
		corrected) {
		t.Error("the lock is free after a second")
	}
	// Round strips the monotonic reading, as after a suspension of which only one clock knows.
	if got := elapsed(start, start.Round(0).Add(time.Hour)); got != time.Hour {
		t.Errorf("the time of day says an hour, and it counts %s", got)
	}
	if got := elapsed(start, start.Add(time.Minute)); got != time.Minute {
		t.Errorf("both clocks say a minute, and it counts %s", got)
	}
}

// A third node may have taken the Lease since it was found free.
func TestChangedLeaseIsNotTaken(t *testing.T) {
	a := newAPI()
	putLease(t, a, "cp1")
	found := parseLease(readLease(t, a))
	a.advance(time.Second)
	putLease(t, a, "cp3")
	err := newLock("cp2").newTakeChange(found, a.Now()).Mutate(readLease(t, a))
	if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "node cp3") {
		t.Errorf("got %v", err)
	}
}

func TestRenewalTriesAllServers(t *testing.T) {
	a := newAPI()
	e, _ := newEnv(a)
	lock := newLock("cp1")
	held, err := lock.Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.refuses = lock.As[0].Server
	a.mu.Unlock()
	before := held.renewedAt()
	a.advance(renewInterval)
	waitUntil(t, "a renewal",
		func() bool { return held.renewedAt().Equal(before.Add(renewInterval)) })
	if held.Err() != nil {
		t.Error(held.Err())
	}
	a.mu.Lock()
	a.refuses = ""
	a.mu.Unlock()
	if err := held.Release(t.Context()); err != nil || readLease(t, a) != nil {
		t.Errorf("%v; the Lease is %v", err, readLease(t, a))
	}
}

func (h *HeldLock) renewedAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}
