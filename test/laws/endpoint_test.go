package laws

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// Each place gets the endpoint, and an undo takes it back. The kubelet of a control plane node keeps the API
// server beside it.
func TestChangeEndpoint(t *testing.T) {
	for before, newMachine := range map[string]func(testing.TB) *fake.World{oldURL: newReconfiguredMachine,
		bareURL: newBareMachine} {
		t.Run(before, func(t *testing.T) {
			s := changeEndpoint(newEndpoint)
			r := s.newRun(newMachine(t))
			checkEndpointPlaces(t, r.machine, before)
			kubelet := string(r.machine.Files[node.DefaultPaths().KubeletKubeconfig()].Data)
			r.mustSucceed(t)
			checkEndpointPlaces(t, r.machine, "https://"+newEndpoint)
			checkNames(t, r.machine, map[string]bool{"api.example.com": true, hostOf(before): true, "192.0.2.10": true})
			if now := string(r.machine.Files[node.DefaultPaths().KubeletKubeconfig()].Data); now != kubelet {
				t.Errorf("the kubelet has another kubeconfig:\n%s", diffLines(kubelet, now))
			}
			again := s.newRun(r.machine).mustSucceed(t)
			if n := len(again.did); n > 3 { // the lock and what is reported
				t.Errorf("the same command changes %v", again.did)
			}
			undoReconfigure(s).newRun(r.machine).mustSucceed(t)
			checkEndpointPlaces(t, r.machine, before)
			if !hasName(t, r.machine, "api.example.com") {
				t.Error("after an undo, nodes that have followed lose the API server")
			}
			// Other nodes have to follow the undo before it is finished.
			finishEndpoint(s).newRun(r.machine).mustSucceed(t)
			if hasName(t, r.machine, "api.example.com") {
				t.Error("the certificate of the API server keeps the endpoint that was taken back")
			}
		})
	}
}

// A second change adds the host from before to the certificates until the change is finished.
func TestFinishEndpoint(t *testing.T) {
	s := changeEndpoint("first.example.com")
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	err := tryFind(t, w, findEndpoint("second.example.com:6443"))
	if err == nil || !strings.Contains(err.Error(), "has not been finished") {
		t.Fatalf("a second change before the end of the first one: %v", err)
	}
	finishEndpoint(s).newRun(w).mustSucceed(t)
	changeEndpoint("second.example.com:6443").newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, "https://second.example.com:6443")
	if !hasName(t, w, "first.example.com") {
		t.Error("the previous endpoint is not valid any more")
	}
	finishEndpoint(s).newRun(w).mustSucceed(t)
	if hasName(t, w, "first.example.com") || !hasName(t, w, "second.example.com") {
		t.Error("the certificate has the previous endpoint, or lacks the new one")
	}
	if found := readChange(t, w); found.Endpoint != nil {
		t.Errorf("the change of the endpoint is not finished: %+v", found.Endpoint)
	}
}

// Wherever a change of the endpoint is killed, the same command completes it, with both endpoints in the
// certificate and in the configuration. A change of something else is refused meanwhile.
func TestKilledEndpointChangeKeepsBothNames(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		found := readChange(t, r.machine)
		refused := tryFind(t, r.machine, request(reconfiguration.Request{
			Flags: config.ReconfigureFlags{AddCertSANs: []string{"more.example.com"}}}))
		if isBegun := found != nil && found.Stored == nil; isBegun != (refused != nil) {
			t.Errorf("begun: %t, another change: %v", isBegun, refused)
		}
		again := r.rerun()
		again.mustSucceed(t)
		checkEndpointPlaces(t, again.machine, "https://"+newEndpoint)
		checkNames(t, again.machine, map[string]bool{"cluster.example": true, "api.example.com": true})
		if text := endpointPlaces(t, again.machine)["kubeadm-config"]; !strings.Contains(text, "cluster.example") {
			t.Errorf("the configuration lacks the name from before:\n%s", text)
		}
	})
}

// A ConfigMap kubeadm-config that was edited by hand names the new endpoint already: the rest follows, and the
// old name stays valid.
func TestEndpointEditedByHand(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	editConfig(t, w, "cluster.example:6443", newEndpoint)
	s.newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, "https://"+newEndpoint)
	checkNames(t, w, map[string]bool{"cluster.example": true, "api.example.com": true})
}

// A name that the user has listed stays in the certificates when the change is finished.
func TestListedNameStays(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	editConfig(t, w, "apiServer: {}", "apiServer: {certSANs: [cluster.example]}")
	s.newRun(w).mustSucceed(t)
	finishEndpoint(s).newRun(w).mustSucceed(t)
	if !hasName(t, w, "cluster.example") {
		t.Error("the name is gone")
	}
}

// A cluster with several control plane nodes keeps the endpoint that it was given.
func TestUndoNeedsAnEndpoint(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := newBareMachine(t)
	s.newRun(w).mustSucceed(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}}}`)
	err := tryFind(t, w, reconfiguration.FindUndo)
	if err == nil || !strings.Contains(err.Error(), "cp2") {
		t.Errorf("the undo: %v", err)
	}
}

// Wherever a change of the endpoint is killed, an undo takes it back.
func TestUndoOfKilledEndpointChange(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		if readChange(t, r.machine) == nil {
			return // the change has not begun
		}
		again := r.rerun()
		again.subject = undoReconfigure(s)
		again.mustSucceed(t)
		checkEndpointPlaces(t, again.machine, oldURL)
	})
}

// newMovedBareMachine is the only control plane node of a cluster without an endpoint after it has moved: the others
// connect to its previous address.
func newMovedBareMachine(t testing.TB) *fake.World {
	w := newBareMachine(t)
	w.Interfaces = newMovingMachine(t).Interfaces
	setNodeAddress(t, w, "cp1", presentAddress)
	if out := changeAddress(newMovingMachine, newAddress).newRun(w).execute(t); out.err != nil {
		t.Fatal(out.err)
	}
	return w
}

// A node without an endpoint that has moved becomes the endpoint at its new address, also for kube-proxy, wherever
// the command is killed. An undo leads back to the previous address.
func TestMovedNodeBecomesEndpoint(t *testing.T) {
	const moved, kubeProxy = newAddress + ":6443", "kube-proxy"
	s := changeEndpoint(moved)
	s.machine = newMovedBareMachine
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		again := r.rerun()
		again.mustSucceed(t)
		checkEndpointPlaces(t, again.machine, "https://"+moved)
		if set := again.machine.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
			Namespace: "kube-system", Name: kubeProxy}]; !strings.Contains(fmt.Sprint(set.Object["spec"]), "kube-proxy-config") {
			t.Error("the Pods of kube-proxy are not replaced")
		}
		if text := endpointPlaces(t, again.machine)[kubeProxy]; strings.Contains(text, bareURL) {
			t.Errorf("kube-proxy connects to the previous address:\n%s", text)
		}
		undoReconfigure(s).newRun(again.machine).mustSucceed(t)
		if text := endpointPlaces(t, again.machine)[kubeProxy]; !strings.Contains(text, bareURL) {
			t.Errorf("after an undo, kube-proxy connects to\n%s", text)
		}
	})
}

// Until a worker has followed, no control plane node joins.
func TestJoinWaitsForFollowers(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := newBareMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: worker1}}`)
	s.newRun(w).mustSucceed(t)
	join := func(ctx context.Context, e *engine.Env, here existing.Machine) (w reconfiguration.Wanted, err error) {
		return w, reconfiguration.CheckFollowed(ctx, e, here.As)
	}
	if err := tryFind(t, w, join); err == nil || !strings.Contains(err.Error(), "worker1") {
		t.Errorf("a control plane node may join: %v", err)
	}
	if err := tryFind(t, w, findFinish); err == nil || !strings.Contains(err.Error(), "worker1") {
		t.Errorf("the change can be finished: %v", err)
	}
	if err := w.Do(t.Context(), readChange(t, w).ReportChange("worker1", state.Identity{})); err != nil {
		t.Fatal(err)
	}
	if err := tryFind(t, w, join); err != nil {
		t.Error(err)
	}
	finishEndpoint(s).newRun(w).mustSucceed(t)
}
