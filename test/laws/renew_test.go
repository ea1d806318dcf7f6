package laws

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strconv"
	"testing"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// newRenewSubject renews all certificates in each run, so not every law applies to it.
func newRenewSubject() subject {
	return subject{name: "renew", phases: workflow.Renew, machine: initializedMachine,
		setUp: setUpInit, node: "cp1"}
}

// Wherever a renewal is killed, each key matches its certificate, and the same command goes on.
func TestRenewalResumesAtEveryCrashPoint(t *testing.T) {
	whole := newRenewSubject().newRun(newRenewSubject().machine(t))
	out := whole.mustSucceed(t)
	if got := listMismatchedKeys(t, whole.machine); len(got) > 0 {
		t.Fatalf("keys that do not match their certificates: %v", got)
	}
	if len(out.did) != 11 { // seven pairs and four kubeconfigs
		t.Fatalf("did %v", describeChanges(out.did))
	}
	forEachFault(len(out.did), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			t.Parallel()
			at.Crash = true
			r := newRenewSubject().newRun(newRenewSubject().machine(t))
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
				t.Errorf("keys that do not match their certificates: %v", got)
			}
			r.rerun().mustSucceed(t)
			if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
				t.Errorf("after the same command these keys do not match: %v", got)
			}
		})
	})
}

// A disk that is full in the middle of a renewal leaves each certificate with its key, old or new. The
// same command goes on once there is space.
func TestRenewalOnFullDisk(t *testing.T) {
	n := len(newRenewSubject().newRun(newRenewSubject().machine(t)).mustSucceed(t).did)
	for at := range n {
		r := newRenewSubject().newRun(newRenewSubject().machine(t))
		r.fault = &fault.World{At: at}
		if out := r.execute(t); !errors.Is(out.err, fault.ErrInjected) {
			t.Errorf("change %d: %v", at, out.err)
		}
		if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
			t.Errorf("change %d: %v", at, got)
		}
		r.rerun().mustSucceed(t)
	}
}

// After an interrupted renewal all keys match their certificates.
func TestInterruptedRenewalKeepsKeyPairs(t *testing.T) {
	n := len(newRenewSubject().newRun(newRenewSubject().machine(t)).mustSucceed(t).did)
	for at := 1; at < n; at++ {
		r := newRenewSubject().newRun(newRenewSubject().machine(t))
		r.stop = at
		if out := r.execute(t); !errors.Is(out.err, errInterrupted) {
			t.Errorf("interrupted at change %d, the run returns: %v", at, out.err)
		}
		if got := listMismatchedKeys(t, r.machine); len(got) > 0 {
			t.Errorf("stopped at change %d: %v", at, got)
		}
	}
}

// listMismatchedKeys lists the certificates whose key does not match.
func listMismatchedKeys(t *testing.T, w *fake.World) (names []string) {
	t.Helper()
	ctx, paths := context.Background(), node.DefaultPaths()
	for _, c := range pki.Renewables() {
		cert, err := certstore.ReadRenewable(ctx, w, paths, c)
		if err != nil || cert == nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		text := w.Files[paths.Key(c.Base)].Data
		if c.File != "" {
			config, err := pki.ParseKubeconfig(w.Files[paths.Kubeconfig(c.File)].Data)
			if err != nil {
				t.Fatal(err)
			}
			user, err := config.CurrentUser()
			if err != nil {
				t.Fatal(err)
			}
			text = user.ClientKeyData
		}
		key, err := pki.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		matches := pki.IsKeyOf(key, cert.PublicKey)
		if err := certstore.CheckRenewableKey(ctx, w, paths, c); matches != (err == nil) {
			t.Errorf("%s: the key matches: %v, but the check returns: %v", c.Name, matches, err)
		}
		if !matches {
			names = append(names, c.Name)
		}
	}
	return names
}

// restartSubject restarts what uses old certificates.
var restartSubject = subject{name: "restart", phases: workflow.RestartStale, setUp: setUpInit,
	node: "cp1", machine: func(t testing.TB) *fake.World {
		r := newRenewSubject().newRun(renewedMachine(t))
		r.mustSucceed(t)
		return r.machine
	}}

// renewedMachine is a control plane whose Pods are known to the container runtime.
func renewedMachine(t testing.TB) *fake.World {
	m := newRenewSubject().machine(t)
	for i, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager",
		"kube-scheduler"} {
		m.Pods = append(m.Pods, state.Sandbox{ID: strconv.Itoa(i), Namespace: "kube-system",
			Component: component})
	}
	m.MemberList = []state.Member{newMember(1, "cp1", "192.0.2.10")}
	if _, err := m.Containers(t.Context(), ""); err != nil { // the kubelet starts them
		t.Fatal(err)
	}
	return m
}

func newMember(id uint64, name, address string) state.Member {
	return state.Member{ID: id, Name: name, PeerURLs: []string{"https://" + address + ":2380"},
		ClientURLs: []string{"https://" + address + ":2379"}}
}

// Components that read a renewed certificate by themselves are not restarted, the others once.
func TestStaleComponentsAreRestarted(t *testing.T) {
	r := restartSubject.newRun(restartSubject.machine(t))
	managers := []string{"kube-controller-manager", "kube-scheduler"}
	if got := restarted(r.mustSucceed(t)); !slices.Equal(got, managers) {
		t.Errorf("restarted %v", got)
	}
	if again := r.rerun().mustSucceed(t).did; len(again) > 0 {
		t.Errorf("again: %v", describeChanges(again))
	}

	// as if they had not noticed
	renewed := restartSubject.newRun(restartSubject.machine(t))
	old := renewedMachine(t)
	renewed.machine.OldCertificates = map[string]*x509.Certificate{}
	for component, address := range map[string]string{"etcd": "192.0.2.10:2379",
		"kube-apiserver": "192.0.2.10:6443"} {
		cert, err := old.ServedCertificate(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		renewed.machine.OldCertificates[component] = cert
	}
	if got := restarted(renewed.mustSucceed(t)); !slices.Equal(got,
		append([]string{"etcd", "kube-apiserver"}, managers...)) {
		t.Errorf("restarted %v", got)
	}
}

// restarted lists the components whose containers were removed.
func restarted(out outcome) (components []string) {
	for _, c := range out.did {
		if remove, ok := c.(change.RemoveContainers); ok {
			components = append(components, remove.Component)
		}
	}
	return components
}

// Wherever a restart is killed, the same command restarts the rest.
func TestRestartResumesAtEveryCrashPoint(t *testing.T) {
	changes := len(restartSubject.newRun(restartSubject.machine(t)).mustSucceed(t).did)
	forEachFault(changes, func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			at.Crash = true
			r := restartSubject.newRun(restartSubject.machine(t))
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			r.rerun().mustSucceed(t)
			if left := r.rerun().mustSucceed(t).did; len(left) > 0 {
				t.Errorf("not restarted by the second run: %v", describeChanges(left))
			}
		})
	})
}

// A container runtime that does not answer for a moment is no evidence that components use new
// certificates, while etcd has no quorum too.
func TestRestartWithoutQuorumOutlastsTheRuntime(t *testing.T) {
	m := restartSubject.machine(t)
	m.MemberList = append(m.MemberList, newMember(2, "cp2", "192.0.2.12"), newMember(3, "cp3", "192.0.2.13"))
	m.UnreachableMembers = []uint64{2, 3}
	r := restartSubject.newRun(m)
	r.observe = func(w world.World) world.World { return &briefStop{World: w} }
	if got := restarted(r.mustSucceed(t)); !slices.Equal(got, []string{"kube-controller-manager", "kube-scheduler"}) {
		t.Errorf("restarted %v", got)
	}
}

// briefStop is a world whose container runtime refuses the first list of containers after a quorum of
// etcd was waited for.
type briefStop struct {
	world.World
	refuses bool
}

func (w *briefStop) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	if w.refuses {
		w.refuses = false
		return nil, errors.New("the container runtime does not answer")
	}
	return w.World.Containers(ctx, socket)
}

func (w *briefStop) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w) }
	err := w.World.Await(ctx, c)
	w.refuses = w.refuses || c.Name == "a quorum of etcd"
	return err
}

// lockedRestarts is a machine that notes the restarts while the cluster's lock is not held.
type lockedRestarts struct {
	world.World
	machine  *fake.World
	unlocked *[]string
}

func (w lockedRestarts) Do(ctx context.Context, c change.Change) error {
	if remove, ok := c.(change.RemoveContainers); ok && w.machine.Objects[memory.Key{
		Kind: clusterlock.LeaseKind().GroupKind(), Namespace: "kube-system",
		Name: clusterlock.LeaseName}] == nil {
		*w.unlocked = append(*w.unlocked, remove.Component)
	}
	return w.World.Do(ctx, c)
}

// While this node restarts components, no other one replaces its control plane.
func TestRestartHoldsClusterLock(t *testing.T) {
	r := restartSubject.newRun(restartSubject.machine(t))
	cert, err := renewedMachine(t).ServedCertificate(t.Context(), "192.0.2.10:2380")
	if err != nil {
		t.Fatal(err)
	}
	r.machine.OldCertificates = map[string]*x509.Certificate{"etcd": cert}
	var unlocked []string
	r.observe = func(below world.World) world.World {
		return lockedRestarts{below, r.machine, &unlocked}
	}
	want := []string{"etcd", "kube-controller-manager", "kube-scheduler"}
	if got := restarted(r.mustSucceed(t)); !slices.Equal(got, want) || len(unlocked) > 0 {
		t.Errorf("restarted %v, without the lock %v", got, unlocked)
	}
}
