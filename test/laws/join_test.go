package laws

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
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
