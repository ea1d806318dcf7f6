package laws

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

const (
	bareURL     = "https://192.0.2.10:6443"
	oldURL      = "https://cluster.example:6443"
	newEndpoint = "api.example.com:6443"
)

// newBareMachine is the only control plane node of a cluster without an endpoint.
func newBareMachine(t testing.TB) *fake.World {
	w := newReconfiguredMachine(t)
	for name, f := range w.Files {
		if strings.HasSuffix(name, ".conf") {
			f.Data = []byte(strings.ReplaceAll(string(f.Data), oldURL, bareURL))
			w.Files[name] = f
		}
	}
	for key, u := range w.Objects {
		data, _, _ := unstructured.NestedStringMap(u.Object, "data")
		if key.Kind.Kind != "ConfigMap" || data == nil {
			continue
		}
		for name, text := range data {
			data[name] = strings.ReplaceAll(strings.ReplaceAll(text, "controlPlaneEndpoint: cluster.example:6443\n", ""),
				oldURL, bareURL)
		}
		u = u.DeepCopy()
		if err := unstructured.SetNestedStringMap(u.Object, data, "data"); err != nil {
			t.Fatal(err)
		}
		w.Objects[key] = u
	}
	return w
}

// changeEndpoint returns the command that changes the endpoint of a cluster.
func changeEndpoint(endpoint string) subject {
	s := reconfigureBy(findEndpoint(endpoint))
	s.name = "endpoint change"
	return s
}

func findEndpoint(endpoint string) findChange {
	return func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		w, err := reconfiguration.FindEndpoint(ctx, e, here, endpoint)
		return w.Wanted, err
	}
}

func undoReconfigure(s subject) subject {
	s.setUp = reconfigureBy(reconfiguration.FindUndo).setUp
	return s
}

func finishEndpoint(s subject) subject {
	s.setUp = reconfigureBy(findFinish).setUp
	return s
}

func findFinish(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
	w, err := reconfiguration.FindEndpointFinish(ctx, e, here)
	return w.Wanted, err
}

// onlyError calls a function that finds a change for its error.
func onlyError(find findChange) func(context.Context, *engine.Env, existing.Machine) error {
	return func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := find(ctx, e, here)
		return err
	}
}

// findIn calls a function that finds a change, in the cluster of a machine.
func findIn(t testing.TB, w *fake.World, find func(context.Context, *engine.Env, existing.Machine) error) error {
	t.Helper()
	e := engine.New(engine.Env{World: w, Tool: newDefaultTool(t), Emit: func(engine.Event) {}})
	local, err := config.ReconfigureNodeFlags{}.Local()
	if err != nil {
		t.Fatal(err)
	}
	e.Local = local
	here, err := existing.Open(t.Context(), e, existing.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return find(t.Context(), e, here)
}

// endpointPlaces are the texts of all places that have the endpoint.
func endpointPlaces(t testing.TB, w *fake.World) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"admin.conf", "super-admin.conf"} {
		if f, found := w.Files["/etc/kubernetes/"+name]; found {
			all[name] = string(f.Data)
		}
	}
	for _, o := range []struct{ namespace, name string }{{"kube-public", "cluster-info"},
		{"kube-system", "kubeadm-config"}, {"kube-system", "kube-proxy"}} {
		u := w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: o.namespace, Name: o.name}]
		if u == nil {
			t.Fatalf("ConfigMap %s does not exist", o.name)
		}
		all[o.name] = fmt.Sprint(u.Object["data"])
	}
	return all
}

func checkEndpointPlaces(t *testing.T, w *fake.World, server string) {
	t.Helper()
	for place, text := range endpointPlaces(t, w) {
		if place == "kubeadm-config" {
			text = strings.ReplaceAll(text, "controlPlaneEndpoint: ", "https://")
			if server == bareURL {
				text += bareURL // which is not stored
			}
		}
		if !strings.Contains(text, server) {
			t.Errorf("%s lacks %s:\n%s", place, server, text)
		}
		for _, other := range []string{bareURL, oldURL, "https://" + newEndpoint} {
			if other != server && strings.Contains(text, other) {
				t.Errorf("%s has %s:\n%s", place, other, text)
			}
		}
	}
}

// hasName reports whether the API server's certificate is valid for a host.
func hasName(t testing.TB, w *fake.World, host string) bool {
	t.Helper()
	all, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/apiserver.crt"].Data)
	if err != nil {
		t.Fatal(err)
	}
	return all[0].VerifyHostname(host) == nil
}

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
			for _, host := range []string{"api.example.com", hostOf(before), "192.0.2.10"} {
				if !hasName(t, r.machine, host) {
					t.Errorf("the certificate of the API server is not valid for %s", host)
				}
			}
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

func hostOf(server string) string {
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	return host
}

// A second change adds the host from before to the certificates until the change is finished.
func TestFinishEndpoint(t *testing.T) {
	s := changeEndpoint("first.example.com")
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := reconfiguration.FindEndpoint(ctx, e, here, "second.example.com:6443")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "has not been finished") {
		t.Fatalf("a second change before the end of the first one: %v", err)
	}
	finishEndpoint(s).newRun(w).mustSucceed(t)
	changeEndpoint("second.example.com:6443").newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, "https://second.example.com:6443")
	if !hasName(t, w, "first.example.com") {
		t.Error("the endpoint from before is not valid any more")
	}
	finishEndpoint(s).newRun(w).mustSucceed(t)
	if hasName(t, w, "first.example.com") || !hasName(t, w, "second.example.com") {
		t.Error("the certificate has the endpoint from before, or lacks the new one")
	}
	found, err := reconfiguration.Read(t.Context(), w, state.Identity{})
	if err != nil || found.Endpoint != nil {
		t.Errorf("the change of the endpoint is not finished: %+v, %v", found.Endpoint, err)
	}
}

// Wherever a change of the endpoint is killed, the same command completes it, with both endpoints in the
// certificate and in the configuration. A change of something else is refused meanwhile.
func TestKilledEndpointChangeKeepsBothNames(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	forEachFault(len(whole.did), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			t.Parallel()
			at.Crash = true
			r := s.newRun(s.machine(t))
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			found, err := reconfiguration.Read(t.Context(), r.machine, state.Identity{})
			if err != nil {
				t.Fatal(err)
			}
			refused := findIn(t, r.machine, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
				_, err := reconfiguration.FindWanted(ctx, e, here, reconfiguration.Request{
					Flags: config.ReconfigureFlags{AddCertSANs: []string{"more.example.com"}}})
				return err
			})
			if isBegun := found != nil && found.Stored == nil; isBegun != (refused != nil) {
				t.Errorf("begun: %t, another change: %v", isBegun, refused)
			}
			again := r.rerun()
			again.mustSucceed(t)
			checkEndpointPlaces(t, again.machine, "https://"+newEndpoint)
			for _, host := range []string{"cluster.example", "api.example.com"} {
				if !hasName(t, again.machine, host) {
					t.Errorf("the certificate of the API server is not valid for %s", host)
				}
			}
			if text := endpointPlaces(t, again.machine)["kubeadm-config"]; !strings.Contains(text, "cluster.example") {
				t.Errorf("the configuration lacks the name from before:\n%s", text)
			}
		})
	})
}

// editConfig edits the ClusterConfiguration that the cluster stores.
func editConfig(t testing.TB, w *fake.World, old, now string) {
	t.Helper()
	key := memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "kubeadm-config"}
	u := w.Objects[key].DeepCopy()
	text, _, _ := unstructured.NestedString(u.Object, "data", "ClusterConfiguration")
	if !strings.Contains(text, old) {
		t.Fatalf("the configuration lacks %s", old)
	}
	err := unstructured.SetNestedField(u.Object, strings.Replace(text, old, now, 1), "data", "ClusterConfiguration")
	if err != nil {
		t.Fatal(err)
	}
	w.Objects[key] = u
}

// A ConfigMap kubeadm-config that was edited by hand names the new endpoint already: the rest follows, and the
// old name stays valid.
func TestEndpointEditedByHand(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	editConfig(t, w, "cluster.example:6443", newEndpoint)
	s.newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, "https://"+newEndpoint)
	for _, host := range []string{"cluster.example", "api.example.com"} {
		if !hasName(t, w, host) {
			t.Errorf("the certificate of the API server is not valid for %s", host)
		}
	}
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
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := reconfiguration.FindUndo(ctx, e, here)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "cp2") {
		t.Errorf("the undo: %v", err)
	}
}

// Wherever a change of the endpoint is killed, an undo takes it back.
func TestUndoOfKilledEndpointChange(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	forEachFault(len(whole.did), func(at *fault.World) {
		t.Run(faultName(at), func(t *testing.T) {
			t.Parallel()
			at.Crash = true
			r := s.newRun(s.machine(t))
			r.fault = at
			if first := r.execute(t); !first.crashed {
				t.Fatalf("the run did not get that far: %v", first.err)
			}
			found, err := reconfiguration.Read(t.Context(), r.machine, state.Identity{})
			if err != nil {
				t.Fatal(err)
			}
			if found == nil {
				return // the change has not begun
			}
			again := r.rerun()
			again.subject = undoReconfigure(s)
			again.mustSucceed(t)
			checkEndpointPlaces(t, again.machine, oldURL)
		})
	})
}

// Until a worker has followed, no control plane node joins.
func TestJoinWaitsForFollowers(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := newBareMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: worker1}}`)
	s.newRun(w).mustSucceed(t)
	join := func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		return reconfiguration.CheckFollowed(ctx, e, here.As)
	}
	finish := func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := reconfiguration.FindEndpointFinish(ctx, e, here)
		return err
	}
	if err := findIn(t, w, join); err == nil || !strings.Contains(err.Error(), "worker1") {
		t.Errorf("a control plane node may join: %v", err)
	}
	if err := findIn(t, w, finish); err == nil || !strings.Contains(err.Error(), "worker1") {
		t.Errorf("the change can be finished: %v", err)
	}
	found, err := reconfiguration.Read(t.Context(), w, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Do(t.Context(), found.ReportChange("worker1", state.Identity{})); err != nil {
		t.Fatal(err)
	}
	if err := findIn(t, w, join); err != nil {
		t.Error(err)
	}
	finishEndpoint(s).newRun(w).mustSucceed(t)
}
