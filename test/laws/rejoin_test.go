package laws

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
)

const kubeletConf, caFile = "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/pki/ca.crt"

// joinOn is the command join on a machine.
func joinOn(m *fake.World) run { return subjects()[1].on(m) }

// otherCA is the CA of a cluster that has nothing to do with ours.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: "kubernetes", Validity: pki.Validity{NotBefore: now, NotAfter: now.Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(ca.Certificate)
}

// overwrite puts other bytes into a file of the machine.
func overwrite(m *fake.World, name string, data []byte) {
	m.Files[name] = memory.File{Data: data, Mode: m.Files[name].Mode}
}

func TestAMemberOfAnotherClusterDoesNotJoin(t *testing.T) {
	r := joinOn(second(t))
	r.succeed(t)
	conf, err := pki.Access{Server: "https://192.0.2.99:6443", Cluster: "kubernetes", User: "u", CA: otherCA(t)}.WithToken("x").Encode()
	if err != nil {
		t.Fatal(err)
	}
	overwrite(r.machine, kubeletConf, conf)
	out := r.again().do(t)
	if out.err == nil || !strings.Contains(out.err.Error(), kubeletConf) || len(out.did) > 0 {
		t.Errorf("the machine passed for one of the cluster: %v, did %v", out.err, of(out.did))
	}
}

func TestADeletedNodeIsRegisteredAgain(t *testing.T) {
	r := joinOn(second(t))
	r.succeed(t)
	delete(r.machine.Objects, memory.Key{Kind: state.NodeKind.GroupKind(), Name: "worker1"})
	out := r.again().succeed(t)
	if len(out.did) != 2 || out.did[0].String() != `stop service "kubelet"` || out.did[1].String() != `start service "kubelet"` {
		t.Errorf("did %v", out.did)
	}
	if _, err := r.machine.World.Object(t.Context(), state.Ref{GVK: state.NodeKind, Name: "worker1"}); err != nil {
		t.Errorf("the Node is still missing: %v", err)
	}
}

func TestTheCAOfAnUnfinishedJoinIsReplaced(t *testing.T) {
	r := joinOn(second(t))
	r.fault = &fault.World{At: 2, Crash: true}
	if first := r.do(t); !first.crashed || len(r.machine.Files[caFile].Data) == 0 {
		t.Fatalf("the run was to end after the CA was written: %v", first.err)
	}
	right := r.machine.Files[caFile].Data
	j, err := journal.Open(r.machine, r.store, journal.Run{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Do(t.Context(), change.WriteFile{Path: caFile, Data: otherCA(t), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	r.again().succeed(t)
	if !bytes.Equal(r.machine.Files[caFile].Data, right) {
		t.Error("the CA of another cluster stayed")
	}
}

func TestTheSharedCertificatesOfAnotherClusterAreReplaced(t *testing.T) {
	s := subjects()[2]
	whole := s.on(another(t)).succeed(t)
	last := slices.IndexFunc(whole.did, func(c change.Change) bool { return c.Target() == "file:/etc/kubernetes/pki/sa.pub" })
	r := s.on(another(t))
	r.fault = &fault.World{At: last, After: true, Crash: true}
	if first := r.do(t); !first.crashed {
		t.Fatalf("the run was to end after the last shared file was written: %v", first.err)
	}
	j, err := journal.Open(r.machine, r.store, journal.Run{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	right := r.machine.Files[caFile].Data
	if err := j.Do(t.Context(), change.WriteFile{Path: caFile, Data: otherCA(t), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	r.again().succeed(t)
	if !bytes.Equal(r.machine.Files[caFile].Data, right) {
		t.Error("the CA of another cluster stayed")
	}
}

func TestAKubeletWithoutServiceIsTheUsersToStart(t *testing.T) {
	m := second(t)
	delete(m.Services, "kubelet")
	out := joinOn(m).do(t)
	warned := false
	for _, e := range out.events {
		warned = warned || e.Kind == flow.Warned && e.Phase == "kubelet-start" && strings.Contains(e.Text, "start the kubelet by hand")
	}
	if !warned || out.err == nil || !strings.Contains(out.err.Error(), "kubelet-wait-bootstrap") {
		t.Errorf("warned: %v; %v", warned, out.err)
	}
}
