package laws

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// addSilentNode adds a Node whose kubelet has missed two renewals of its Lease.
func addSilentNode(t *testing.T, m *fake.World, name string) {
	t.Helper()
	addSilentSince(t, m, name, 21*time.Second)
}

func addSilentSince(t *testing.T, m *fake.World, name string, age time.Duration) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name,
		Namespace: "kube-node-lease"}}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: m.Now().Add(-age)}
	if err := m.World.Do(t.Context(), change.ApplyObject{Object: lease}); err != nil {
		t.Fatal(err)
	}
	addNodeWithoutLease(t, m, name)
}

// addNodeWithoutLease adds a Node whose kubelet has stopped before it created a Lease.
func addNodeWithoutLease(t *testing.T, m *fake.World, name string) {
	t.Helper()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.SetGroupVersionKind(state.NodeKind)
	if err := m.World.Do(t.Context(), change.ApplyObject{Object: object}); err != nil {
		t.Fatal(err)
	}
}

// A token is created only by the run that replaces the certificate of a kubelet that had expired.
func TestSilentWorkersAreReported(t *testing.T) {
	m := expiredControlPlane(t)
	addSilentNode(t, m, "worker9")
	addNodeWithoutLease(t, m, "worker8")
	r := recoverSubject.newRun(m)
	text := printed(r.mustSucceed(t))
	if !strings.Contains(text, "worker8, worker9.") || !strings.Contains(text, "kubelet.conf --token ") ||
		strings.Contains(text, "--token TOKEN") {
		t.Errorf("it prints %s", text)
	}
	again := r.rerun().mustSucceed(t)
	if text := printed(again); !strings.Contains(text, "kubelet.conf --token TOKEN") {
		t.Errorf("again, it prints %s", text)
	}
	for _, c := range again.did {
		if strings.Contains(c.Target(), "Secret") {
			t.Errorf("again: %s", c)
		}
	}
}

// A wait for nodes that stay silent lists all Nodes when it begins and when it ends, and reads the Leases of a few by name.
func TestWaitForSilentNodesListsNodesTwice(t *testing.T) {
	m := expiredControlPlane(t)
	addSilentNode(t, m, "worker9")
	r := recoverSubject.newRun(m)
	counted := &requestCounter{}
	r.observe = func(below world.World) world.World { counted.World = below; return counted }
	if text := printed(r.mustSucceed(t)); !strings.Contains(text, "worker9. ") {
		t.Errorf("it prints %q", text)
	}
	if nodes, leases := counted.all["list all Node"], counted.all["list Lease"]; nodes > 2 || leases > 0 {
		t.Errorf("Nodes were listed %d times, and Leases %d times", nodes, leases)
	}
}

// slowServer is live only at the third check, as a kube-apiserver that the kubelet has just restarted.
type slowServer struct {
	world.World
	checks int
}

func (w *slowServer) Livez(ctx context.Context, as state.Identity) error {
	if w.checks++; w.checks < 3 {
		return errors.New("it answered 500 Internal Server Error")
	}
	return w.World.Livez(ctx, as)
}

func (w *slowServer) Await(ctx context.Context, c world.Condition) error {
	var err error
	for range 3 {
		if err = c.Check(ctx, w); err == nil {
			return nil
		}
	}
	return err
}

// Nodes are looked at once the API server can tell of them.
func TestSilentWorkersAreReportedBySlowServer(t *testing.T) {
	m := expiredControlPlane(t)
	addSilentNode(t, m, "worker9")
	r := recoverSubject.newRun(m)
	r.observe = func(below world.World) world.World { return &slowServer{World: below} }
	if text := printed(r.mustSucceed(t)); !strings.Contains(text, "worker9. ") {
		t.Errorf("it prints %q", text)
	}
}

// A worker whose certificate has ended with this node's may have reported a moment before.
func TestReportsFromBeforeExpiryDoNotCount(t *testing.T) {
	m := expiredControlPlane(t)
	addSilentSince(t, m, "worker9", 5*time.Second)
	if text := printed(recoverSubject.newRun(m).mustSucceed(t)); !strings.Contains(text, "worker9. ") {
		t.Errorf("it prints %q", text)
	}
}

// A certificate that is valid, but does not match its key, is replaced without a token.
func TestUnexpiredKubeletCertificateCreatesNoToken(t *testing.T) {
	m := expiredControlPlane(t)
	one, other := issueKubelet(t, m, "cp1"), issueKubelet(t, m, "cp1")
	const end = "-----END CERTIFICATE-----\n"
	cert, _, _ := strings.Cut(string(one), end)
	_, key, _ := strings.Cut(string(other), end)
	m.Files[kubeletFile] = memory.File{Data: []byte(cert + end + key), Mode: 0o600}
	addSilentNode(t, m, "worker9")
	out := recoverSubject.newRun(m).mustSucceed(t)
	checkKubelet(t, m, "cp1")
	if text := printed(out); !strings.Contains(text, "kubelet.conf --token TOKEN") {
		t.Errorf("it prints %s", text)
	}
	for _, c := range out.did {
		if strings.Contains(c.Target(), "Secret") {
			t.Errorf("a token: %s", c)
		}
	}
}
