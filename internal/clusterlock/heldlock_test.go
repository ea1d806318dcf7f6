package clusterlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

func TestLostLockIsNotDeleted(t *testing.T) {
	a := newAPI()
	e, recorded := newEnv(a)
	held, err := newLock("cp1").Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	putLease(t, a, "cp2")
	a.advance(renewInterval)
	waitUntil(t, "the loss", func() bool { return held.Err() != nil })
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if h := parseLease(readLease(t, a)); h.holder != "cp2" || !recorded.has("has lost the cluster's lock") {
		t.Errorf("the Lease says %+v; events are %q", h, recorded.text)
	}
}

// suspend lets the world's clock run on while this node makes no request, as in a process that was
// stopped: the renewals do not run until the next request.
func suspend(a *api, h *HeldLock, by time.Duration) {
	h.stop()
	a.advance(by)
}

// A process that was suspended for ten minutes does not go on beside the node that took over.
func TestSuspendedHolderChangesNothing(t *testing.T) {
	const file = "/etc/kubernetes/manifests/etcd.yaml"
	for name, takeOver := range map[string]func(a *api){
		"another node holds the lock": func(a *api) { putLease(t, a, "cp2") },
		"another node has held it": func(a *api) {
			if err := a.World.Do(t.Context(), change.DeleteObject{
				Ref: newLock("cp2").ref(state.Identity{})}); err != nil {
				t.Fatal(err)
			}
		},
		"a later run of this node holds it": func(a *api) { putLease(t, a, "cp1") },
	} {
		a := newAPI()
		e, recorded := newEnv(a)
		err := newLock("cp1").Hold(t.Context(), e, func(ctx context.Context, e *engine.Env) error {
			held := e.World.(guardedWorld).held
			suspend(a, held, 10*time.Minute)
			if err := held.Err(); !errors.Is(err, ErrLost) {
				t.Errorf("%s: Err returns %v", name, err)
			}
			takeOver(a)
			return e.Do(ctx, change.WriteFile{Path: file, Data: []byte("x"), Mode: 0o600})
		})
		if _, written := a.Files[file]; written || !errors.Is(err, ErrLost) ||
			len(problem.Hints(err)) == 0 || !recorded.has("has lost the cluster's lock") {
			t.Errorf("%s: written is %t, %v; %q", name, written, err, recorded.text)
		}
	}
}

// If no other node took the lock meanwhile, the holder goes on with the Lease renewed.
func TestSuspendedHolderGoesOnAlone(t *testing.T) {
	a := newAPI()
	e, _ := newEnv(a)
	err := newLock("cp1").Hold(t.Context(), e, func(ctx context.Context, e *engine.Env) error {
		held := e.World.(guardedWorld).held
		suspend(a, held, 10*time.Minute)
		if err := e.Do(ctx, change.WriteFile{Path: "/srv/a", Mode: 0o600}); err != nil {
			return err
		}
		return held.Err()
	})
	if err != nil || readLease(t, a) != nil {
		t.Errorf("%v; the Lease is %v", err, readLease(t, a))
	}
}

// While no API server answers, another node may take over the lock by one that this node does not
// reach, unless there is no other.
func TestUnreachableServers(t *testing.T) {
	for others, want := range map[int]bool{0: true, 1: false} {
		a := newAPI()
		addNode(t, a, "cp1")
		if others > 0 {
			addNode(t, a, "cp2")
		}
		e, _ := newEnv(a)
		lock := newLock("cp1")
		lock.As = lock.As[:1]
		held, err := lock.Acquire(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		held.stop()
		a.mu.Lock()
		a.refuses = lock.As[0].Server
		a.mu.Unlock()
		a.advance(leaseDuration - time.Second)
		if err := held.Confirm(t.Context()); err != nil {
			t.Errorf("before the Lease has expired: %v", err)
		}
		a.advance(time.Second)
		if err := held.Confirm(t.Context()); (err == nil) != want {
			t.Errorf("%d other control plane nodes: %v", others, err)
		}
		a.mu.Lock()
		a.refuses = ""
		a.mu.Unlock()
		a.advance(time.Minute)
		if err := held.Confirm(t.Context()); err != nil || held.Err() != nil {
			t.Errorf("the API server answers again: %v", err)
		}
	}
}

// The work may move the API server by which the lock was taken: the Lease is deleted through another one.
func TestMovedServerReleasesLock(t *testing.T) {
	a := newAPI()
	e, recorded := newEnv(a)
	lock := newLock("cp1")
	err := lock.Hold(t.Context(), e, func(context.Context, *engine.Env) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refuses = lock.As[0].Server
		return nil
	})
	if err != nil || readLease(t, a) != nil || recorded.has("deleting the Lease") {
		t.Errorf("%v; the Lease is %v; events are %q", err, readLease(t, a), recorded.text)
	}
}

func addNode(t *testing.T, a *api, name string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	n.SetGroupVersionKind(state.NodeKind)
	if err := a.World.Do(t.Context(), change.ApplyObject{Object: n}); err != nil {
		t.Fatal(err)
	}
}

// addServers lists the addresses of API servers as kube-apiserver does.
func addServers(t *testing.T, a *api, addresses ...string) {
	t.Helper()
	port := int32(6443)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Ports: []discoveryv1.EndpointPort{{Port: &port}}}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	slice.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
	if err := a.World.Do(t.Context(), change.ApplyObject{Object: slice}); err != nil {
		t.Fatal(err)
	}
}

// An API server that joins while the lock is held may give the lock to another node.
func TestJoinedAPIServerIsNoticed(t *testing.T) {
	a := newAPI()
	addNode(t, a, "cp1")
	e, _ := newEnv(a)
	held, err := newLock("cp1").Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if !held.hasOnlyServer() {
		t.Error("the API server is not taken for the only one")
	}
	addServers(t, a, "192.0.2.99", "192.0.2.97")
	held.renewAfter(t.Context(), 0)
	if held.hasOnlyServer() {
		t.Error("the API server that joined is not noticed")
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The Lease is renewed by the API servers of other nodes too.
func TestOtherAPIServersRenew(t *testing.T) {
	a := newAPI()
	addServers(t, a, "192.0.2.99", "192.0.2.97", "not an address", "2001:db8::1")
	e, _ := newEnv(a)
	held, err := newLock("cp1").Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var servers []string
	for _, as := range held.servers {
		servers = append(servers, as.Server)
	}
	if got, want := strings.Join(servers, " "), "https://192.0.2.99:6443 https://192.0.2.98:6443 "+
		"https://192.0.2.97:6443 https://[2001:db8::1]:6443"; got != want || held.hasOnlyServer() {
		t.Errorf("%s\nwant %s, only %t", got, want, held.hasOnlyServer())
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The lock is taken by any API server that answers. If none does, the work is done without it.
func TestHoldIfReachable(t *testing.T) {
	a := newAPI()
	a.refuses = newLock("cp1").As[0].Server
	unreachable := fake.New() // its API server does not run
	for w, want := range map[world.World]string{a: "cp1", unreachable: ""} {
		e, recorded := newEnv(w)
		holder := "work was not run"
		err := newLock("cp1").HoldIfReachable(t.Context(), e,
			func(context.Context, *engine.Env) error {
				holder = ""
				if want != "" {
					holder = parseLease(readLease(t, a)).holder
				}
				return nil
			})
		if err != nil || holder != want {
			t.Errorf("%v; the lock is held by %q, want %q", err, holder, want)
		}
		if warned := recorded.has("the cluster's lock is not held"); warned != (want == "") {
			t.Errorf("held by %q, warned: %v", holder, warned)
		}
	}
	if left := readLease(t, a); left != nil {
		t.Errorf("left: %v", left)
	}
}
