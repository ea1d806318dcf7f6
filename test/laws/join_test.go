package laws

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

const kubeletConf, caFile = "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/pki/ca.crt"

// newJoinRun is the first run of join on a machine.
func newJoinRun(m *fake.World) run { return findSubject("join").newRun(m) }

// newOtherCA returns the CA certificate of another cluster.
func newOtherCA(t *testing.T) []byte {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca, err := pki.NewCA(rand.Reader, key,
		pki.Spec{CommonName: "kubernetes",
			Validity: pki.Validity{NotBefore: now, NotAfter: now.Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(ca.Certificate)
}

// overwriteFile replaces the content of a file on the machine.
func overwriteFile(m *fake.World, name string, data []byte) {
	m.Files[name] = memory.File{Data: data, Mode: m.Files[name].Mode}
}

func TestNodeOfAnotherClusterIsRefused(t *testing.T) {
	r := newJoinRun(newWorkerMachine(t))
	r.mustSucceed(t)
	conf, err := pki.KubeconfigSpec{Server: "https://192.0.2.99:6443", Cluster: "kubernetes",
		User: "u", CA: newOtherCA(t)}.WithToken("x").Encode()
	if err != nil {
		t.Fatal(err)
	}
	overwriteFile(r.machine, kubeletConf, conf)
	out := r.rerun().execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), kubeletConf) || len(out.did) > 0 {
		t.Errorf("the machine was taken for a node of the cluster: %v, did %v", out.err,
			describeChanges(out.did))
	}
}

func TestDeletedNodeIsRegisteredAgain(t *testing.T) {
	r := newJoinRun(newWorkerMachine(t))
	r.mustSucceed(t)
	delete(r.machine.Objects, memory.Key{Kind: state.NodeKind.GroupKind(), Name: "worker1"})
	out := r.rerun().mustSucceed(t)
	if len(out.did) != 2 || out.did[0].String() != `stop service "kubelet"` ||
		out.did[1].String() != `start service "kubelet"` {
		t.Errorf("did %v", out.did)
	}
	if _, err := r.machine.World.Object(t.Context(),
		state.Ref{GVK: state.NodeKind, Name: "worker1"}); err != nil {
		t.Errorf("the Node is still missing: %v", err)
	}
}

func TestCAOfUnfinishedJoinIsReplaced(t *testing.T) {
	r := newJoinRun(newWorkerMachine(t))
	r.fault = &fault.World{At: 2, Crash: true}
	if first := r.execute(t); !first.crashed || len(r.machine.Files[caFile].Data) == 0 {
		t.Fatalf("the run was to end after the CA was written: %v", first.err)
	}
	right := r.machine.Files[caFile].Data
	j, err := journal.Open(r.machine, r.store, journal.RunID{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Do(t.Context(),
		change.WriteFile{Path: caFile, Data: newOtherCA(t), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	r.rerun().mustSucceed(t)
	if !bytes.Equal(r.machine.Files[caFile].Data, right) {
		t.Error("the CA of another cluster stayed")
	}
}

func TestSharedCertificatesOfAnotherClusterAreReplaced(t *testing.T) {
	s := findSubject("join a control plane")
	whole := s.newRun(newControlPlaneMachine(t)).mustSucceed(t)
	last := slices.IndexFunc(whole.did,
		func(c change.Change) bool { return c.Target() == "file:/etc/kubernetes/pki/sa.pub" })
	r := s.newRun(newControlPlaneMachine(t))
	r.fault = &fault.World{At: last, After: true, Crash: true}
	if first := r.execute(t); !first.crashed {
		t.Fatalf("the run was to end after the last shared file was written: %v", first.err)
	}
	j, err := journal.Open(r.machine, r.store, journal.RunID{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	right := r.machine.Files[caFile].Data
	if err := j.Do(t.Context(),
		change.WriteFile{Path: caFile, Data: newOtherCA(t), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	r.rerun().mustSucceed(t)
	if !bytes.Equal(r.machine.Files[caFile].Data, right) {
		t.Error("the CA of another cluster stayed")
	}
}

func TestKubeletWithoutServiceWarns(t *testing.T) {
	m := newWorkerMachine(t)
	delete(m.Services, "kubelet")
	out := newJoinRun(m).execute(t)
	warned := false
	for _, e := range out.events {
		warned = warned || e.Kind == engine.Warned && e.Phase == "kubelet-start" &&
			strings.Contains(e.Text, "restart the kubelet manually")
	}
	if !warned || out.err == nil || !strings.Contains(out.err.Error(), "kubelet-wait-bootstrap") {
		t.Errorf("warned: %v; %v", warned, out.err)
	}
}

// startingAPIServer is a machine whose API server is live only once the kubelet has registered its Node.
// No real one is like that: a join ends there only if it starts the kubelet first.
type startingAPIServer struct{ world.World }

func (w startingAPIServer) Livez(ctx context.Context, as state.Identity) error {
	if err := w.World.Livez(ctx, as); err != nil {
		return err
	}
	if _, err := w.Object(ctx, state.Ref{GVK: state.NodeKind, Name: "cp2"}); err != nil {
		return &state.NotLiveError{Status: http.StatusInternalServerError,
			Failed: []string{"poststarthook/rbac/bootstrap-roles"}}
	}
	return nil
}

func (w startingAPIServer) Await(ctx context.Context, c world.Condition) error {
	c.Timeout = 10 * time.Second
	return world.Poll(ctx, w, c)
}

func TestKubeletOfJoiningControlPlaneRegistersBeforeAPIServerIsLive(t *testing.T) {
	r := findSubject("join a control plane").newRun(newControlPlaneMachine(t))
	r.observe = func(below world.World) world.World { return startingAPIServer{below} }
	r.mustSucceed(t)
}

// crashedEtcd is a machine on which etcd has exited with an error.
type crashedEtcd struct{ world.World }

func (w crashedEtcd) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	all, err := w.World.Containers(ctx, socket)
	return append(all, state.Container{Name: "etcd", Component: "etcd", ExitCode: 1}), err
}

// A new kubelet restarts a failed component at once, the old one after up to five minutes.
func TestJoinEndsBackOffOfFailedComponents(t *testing.T) {
	r := findSubject("join a control plane").newRun(newControlPlaneMachine(t))
	r.machine.Services["kubelet"] = state.Service{Exists: true, Active: true}
	r.observe = func(below world.World) world.World { return crashedEtcd{below} }
	did := r.mustSucceed(t).did
	first := slices.IndexFunc(did, func(c change.Change) bool {
		_, ok := c.(change.SetService)
		return ok
	})
	if first < 0 || did[first].(change.SetService).Active {
		t.Errorf("the kubelet was not stopped before its first start: %v", did)
	}
}

// kubeletGate is a machine that holds back one file until it is known whether the kubelet was started.
type kubeletGate struct {
	world.World
	file    string
	read    bool          // it holds back a read of the file, not the write
	limit   time.Duration // for how long at most
	started *atomic.Bool  // the kubelet was, meanwhile
}

func (w kubeletGate) await(ctx context.Context) {
	for end := time.Now().Add(w.limit); time.Now().Before(end) && !w.started.Load(); time.Sleep(time.Millisecond) {
		if s, err := w.Service(ctx, "kubelet"); err == nil && s.Active {
			w.started.Store(true)
		}
	}
}

func (w kubeletGate) Do(ctx context.Context, c change.Change) error {
	if f, ok := c.(change.WriteFile); ok && f.Path == w.file && !w.read {
		w.await(ctx)
	}
	return w.World.Do(ctx, c)
}

func (w kubeletGate) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == w.file && w.read {
		w.await(ctx)
	}
	return w.World.ReadFile(ctx, path)
}

// TestKubeletOfJoinStartsWhileKeysAreGenerated checks that the kubelet of a control plane is started before the
// last key is written, and after it is known that etcd accepts a member.
func TestKubeletOfJoinStartsWhileKeysAreGenerated(t *testing.T) {
	r, started := findSubject("join a control plane").newRun(newControlPlaneMachine(t)), &atomic.Bool{}
	r.observe = func(w world.World) world.World {
		return kubeletGate{World: w, file: "/etc/kubernetes/pki/apiserver.key", limit: 10 * time.Second, started: started}
	}
	out := r.mustSucceed(t)
	if !started.Load() {
		t.Error("the kubelet was not started before the key was written")
	}
	position := func(matches func(engine.Event) bool) int { return slices.IndexFunc(out.events, matches) }
	checked := position(func(e engine.Event) bool { return e.Kind == engine.Finished && e.Phase == "check-etcd" })
	starts := position(func(e engine.Event) bool {
		return e.Kind == engine.Changing && e.Change.Target() == change.SetService{Name: "kubelet"}.Target()
	})
	if checked < 0 || starts < checked {
		t.Errorf("event %d: etcd is checked; event %d: the kubelet is started", checked, starts)
	}
}

// TestJoinChecksExistingFilesBeforeKubelet checks that a join that finds a fault in an existing file does not
// start the kubelet.
func TestJoinChecksExistingFilesBeforeKubelet(t *testing.T) {
	m, started := newControlPlaneMachine(t), &atomic.Bool{}
	for _, name := range []string{"crt", "key"} {
		m.Files["/etc/kubernetes/pki/apiserver."+name] = memory.File{Data: []byte("?"), Mode: 0o600}
	}
	r := findSubject("join a control plane").newRun(m)
	r.observe = func(w world.World) world.World {
		return kubeletGate{World: w, file: "/etc/kubernetes/pki/apiserver.crt", read: true,
			limit: 300 * time.Millisecond, started: started}
	}
	out := r.execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "apiserver") || started.Load() {
		t.Errorf("%v; the kubelet was started: %t", out.err, started.Load())
	}
}

// TestManifestsOfJoinWithExternalEtcdComeBeforeKubelet checks that no manifest is written while the kubelet
// starts: it may miss one then, and nothing else waits for it.
func TestManifestsOfJoinWithExternalEtcdComeBeforeKubelet(t *testing.T) {
	m := newControlPlaneMachine(t)
	useExternalEtcd(t, m)
	out := findSubject("join a control plane").newRun(m).mustSucceed(t)
	position := func(target string) int {
		return slices.IndexFunc(out.did, func(c change.Change) bool { return c.Target() == target })
	}
	starts := position(change.SetService{Name: "kubelet"}.Target())
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		at := position("file:/etc/kubernetes/manifests/" + component + ".yaml")
		if at < 0 || at > starts {
			t.Errorf("change %d: the manifest of %s; change %d: the kubelet is started", at, component, starts)
		}
	}
}

// TestJoinAsksKubeletForItsVersionOnce checks that checks before and after discovery share the answer.
func TestJoinAsksKubeletForItsVersionOnce(t *testing.T) {
	r, asked := newJoinRun(newWorkerMachine(t)), &atomic.Int32{}
	r.observe = func(w world.World) world.World { return versionCounter{w, asked} }
	if r.mustSucceed(t); asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

type versionCounter struct {
	world.World
	asked *atomic.Int32
}

func (w versionCounter) KubeletVersion(ctx context.Context) (string, error) {
	w.asked.Add(1)
	return w.World.KubeletVersion(ctx)
}

// A Node that a machine takes over does not say any more that it has followed a change of the configuration: this machine
// may use a previous endpoint.
func TestJoinForgetsWhatTheNodeHasFollowed(t *testing.T) {
	for _, name := range []string{"join", "join a control plane"} {
		t.Run(name, func(t *testing.T) {
			s := findSubject(name)
			newMachine := s.machine
			s.machine = func(t testing.TB) *fake.World {
				w := newMachine(t)
				addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: `+s.node+`, labels: {kubernetes.io/hostname: `+s.node+
					`}, annotations: {kubeadm.kubernetes.io/reconfiguration: "1"}}}`)
				return w
			}
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				r.rerun().mustSucceed(t)
				u := r.machine.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: s.node}]
				if _, hasFollowed := u.GetAnnotations()["kubeadm.kubernetes.io/reconfiguration"]; hasFollowed {
					t.Error("the Node still says so")
				}
			})
		})
	}
}
