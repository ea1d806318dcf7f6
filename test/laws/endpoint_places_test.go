package laws

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/bootstraptoken"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// replaceInObject replaces a text in the data of a ConfigMap.
func replaceInObject(t testing.TB, w *fake.World, namespace, name, old, now string) {
	t.Helper()
	key := memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: namespace, Name: name}
	u := w.Objects[key].DeepCopy()
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	for k, text := range data {
		data[k] = strings.ReplaceAll(text, old, now)
	}
	if err := unstructured.SetNestedStringMap(u.Object, data, "data"); err != nil {
		t.Fatal(err)
	}
	w.Objects[key] = u
}

// replaceInFile replaces a text in a file below /etc/kubernetes.
func replaceInFile(t testing.TB, w *fake.World, name, old, now string) {
	t.Helper()
	f := w.Files["/etc/kubernetes/"+name]
	if !strings.Contains(string(f.Data), old) {
		t.Fatalf("%s lacks %s", name, old)
	}
	f.Data = []byte(strings.ReplaceAll(string(f.Data), old, now))
	w.Files["/etc/kubernetes/"+name] = f
}

// reportFollowed says that another node has followed the latest change.
func reportFollowed(t testing.TB, w *fake.World, name string) {
	t.Helper()
	if err := w.Do(t.Context(), readChange(t, w).ReportChange(name, state.Identity{})); err != nil {
		t.Fatal(err)
	}
}

// A cluster-info that leads elsewhere than the stored endpoint does not decide where an undo leads.
func TestUndoLeadsToStoredEndpoint(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	replaceInObject(t, w, "kube-public", "cluster-info", oldURL, "https://stale.example:6443")
	s.newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, "https://"+newEndpoint)
	undoReconfigure(s).newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, oldURL)
	finishEndpoint(s).newRun(w).mustSucceed(t)
}

// A change of the endpoint that fails leaves the kubeconfigs as they were, whatever cluster-info says, also after it was
// killed.
func TestFailedEndpointChangeRestoresKubeconfigs(t *testing.T) {
	const stale = "https://stale.example:6443"
	s := changeEndpoint(newEndpoint)
	s.machine = func(t testing.TB) *fake.World {
		w := newReconfiguredMachine(t)
		replaceInObject(t, w, "kube-public", "cluster-info", oldURL, stale)
		replaceInFile(t, w, "scheduler.conf", bareURL, oldURL)
		return w
	}
	before := s.machine(t)
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		if found := readChange(t, r.machine); found == nil || found.Stored != nil {
			return
		}
		again := r.rerun()
		again.observe = func(w world.World) world.World { return failingRestart{unreachable{w, "https://" + newEndpoint}} }
		if out := again.execute(t); out.err == nil {
			t.Fatal("the command succeeded without the endpoint")
		}
		if readChange(t, r.machine) != nil {
			return // the cluster has the endpoint already
		}
		for _, name := range []string{"admin.conf", "super-admin.conf", "scheduler.conf"} {
			if now := string(r.machine.Files["/etc/kubernetes/"+name].Data); now != string(before.Files["/etc/kubernetes/"+name].Data) {
				t.Errorf("%s is another one:\n%s", name, now)
			}
		}
	})
}

// failingRestart is a world in which the scheduler does not become healthy again.
type failingRestart struct{ world.World }

func (w failingRestart) Await(ctx context.Context, c world.Condition) error {
	if strings.Contains(c.Name, "kube-scheduler") {
		return errors.New("it crashes")
	}
	return w.World.Await(ctx, c)
}

// Components whose kubeconfigs have the previous endpoint use the API server beside them, and are restarted.
func TestComponentsLeavePreviousEndpoint(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	s.machine = func(t testing.TB) *fake.World {
		w := newReconfiguredMachine(t)
		for _, name := range []string{"controller-manager.conf", "scheduler.conf"} {
			replaceInFile(t, w, name, bareURL, oldURL)
		}
		return w
	}
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		for name, component := range map[string]string{"controller-manager.conf": "kube-controller-manager",
			"scheduler.conf": "kube-scheduler"} {
			file := r.machine.Files["/etc/kubernetes/"+name]
			if !strings.Contains(string(file.Data), bareURL) {
				t.Errorf("%s is\n%s", name, file.Data)
			}
			all, err := r.machine.Containers(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				if c.Component == component && c.Running && c.Created.Before(file.ModTime) {
					t.Errorf("%s is older than %s", component, name)
				}
			}
		}
		finishEndpoint(s).newRun(r.machine).mustSucceed(t)
	})
}

// A component that could not be restarted with its new kubeconfig is restarted when the command is run again: where the
// cluster has the endpoint already, on the first node and on another one.
func TestFailedRestartIsNotForgotten(t *testing.T) {
	place := func(w *fake.World) { replaceInFile(t, w, "scheduler.conf", bareURL, oldURL) }
	moved := newReconfiguredMachine(t)
	changeEndpoint(newEndpoint).newRun(moved).mustSucceed(t)
	place(moved)
	moved.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}].SetAnnotations(nil)
	reached := changeEndpoint(newEndpoint).killAt(t, "kubeadm-config").machine
	place(reached)
	for name, c := range map[string]struct {
		command subject
		machine *fake.World
	}{
		"the first node": {changeEndpoint(newEndpoint), reached},
		"another node":   {reconfigureNode(nil), moved},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.command.newRun(c.machine)
			r.observe = func(w world.World) world.World { return stuckScheduler{w} }
			if out := r.execute(t); out.err == nil || !strings.Contains(out.err.Error(), "the runtime hangs") {
				t.Fatalf("the command ended with: %v", out.err)
			}
			again := r.rerun()
			again.observe = nil
			again.mustSucceed(t)
			file := r.machine.Files["/etc/kubernetes/scheduler.conf"]
			if !strings.Contains(string(file.Data), bareURL) {
				t.Errorf("scheduler.conf is\n%s", file.Data)
			}
			all, err := r.machine.Containers(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				if c.Component == "kube-scheduler" && c.Running && c.Created.Before(file.ModTime) {
					t.Errorf("the scheduler was started at %s, before scheduler.conf was written at %s", c.Created, file.ModTime)
				}
			}
		})
	}
}

// stuckScheduler is a world in which the containers of the scheduler cannot be removed.
type stuckScheduler struct{ world.World }

func (w stuckScheduler) Do(ctx context.Context, c change.Change) error {
	if remove, ok := c.(change.RemoveContainers); ok && remove.Component == "kube-scheduler" {
		return errors.New("the runtime hangs")
	}
	return w.World.Do(ctx, c)
}

// What still has the previous endpoint is found before the end of a change begins.
func TestFinishIsRefused(t *testing.T) {
	changed := changeEndpoint(newEndpoint).machine(t)
	changeEndpoint(newEndpoint).newRun(changed).mustSucceed(t)
	for name, c := range map[string]struct {
		change      func(*fake.World)
		word, hints string
	}{
		"kubeconfig of a component": {func(w *fake.World) { replaceInFile(t, w, "scheduler.conf", bareURL, oldURL) },
			"scheduler.conf", bareURL},
		"cluster-info": {func(w *fake.World) {
			replaceInObject(t, w, "kube-public", "cluster-info", "https://"+newEndpoint, oldURL)
		}, "kube-public/cluster-info", "kubeadm init phase bootstrap-token"},
		"old Pods of a kube-proxy for Windows": {func(w *fake.World) {
			addObjects(t, w, windowsProxy(`"digest"`)+`
---
{apiVersion: v1, kind: Pod, metadata: {name: windows-1, namespace: kube-system, labels: {k8s-app: kube-proxy-windows}}}`)
		}, "kube-proxy-windows", "kubectl get pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changed.Clone()
			c.change(w)
			id := readChange(t, w).ID
			err := tryFind(t, w, findFinish)
			if err == nil || !strings.Contains(err.Error(), c.word) || !strings.Contains(strings.Join(problem.Hints(err), "\n"), c.hints) {
				t.Errorf("the end is refused by: %v\n%v", err, problem.Hints(err))
			}
			if readChange(t, w).ID != id {
				t.Error("the end has begun")
			}
		})
	}
}

// windowsProxy is a kube-proxy for Windows nodes, with the digest of a configuration.
func windowsProxy(digest string) string {
	return `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: kube-proxy-windows, namespace: kube-system}, spec: {
  selector: {matchLabels: {k8s-app: kube-proxy-windows}}, template: {
    metadata: {labels: {k8s-app: kube-proxy-windows}, annotations: {` + reconfiguration.ProxyConfigAnnotation + `: ` + digest + `}},
    spec: {volumes: [{name: kube-proxy, configMap: {name: kube-proxy}}]}}}}`
}

// Other DaemonSets that read the ConfigMap of kube-proxy get new Pods too.
func TestOtherProxiesAreReplaced(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	addObjects(t, w, windowsProxy(`""`))
	s.newRun(w).mustSucceed(t)
	set := func(name string) string {
		u := w.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system", Name: name}]
		digest, _, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "annotations",
			reconfiguration.ProxyConfigAnnotation)
		return digest
	}
	if own, other := set("kube-proxy"), set("kube-proxy-windows"); own == "" || own != other {
		t.Errorf("kube-proxy has %q, that of Windows nodes %q", own, other)
	}
}

// A finished change leaves a load balancer that kube-proxy uses alone.
func TestFinishedEndpointChangeKeepsProxyServer(t *testing.T) {
	const own = "https://10.0.0.5:6443"
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	replaceInObject(t, w, "kube-system", "kube-proxy", oldURL, own)
	s.newRun(w).mustSucceed(t)
	finishEndpoint(s).newRun(w).mustSucceed(t)
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		found, err := reconfiguration.FindEndpoint(ctx, e, here, newEndpoint)
		if err == nil && !found.Done {
			err = fmt.Errorf("the same command changes %+v", found.Fields)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if text := endpointPlaces(t, w)["kube-proxy"]; !strings.Contains(text, own) {
		t.Errorf("kube-proxy connects to\n%s", text)
	}
}

// Where other control plane nodes get the name first, the end of each change removes the one from before, and an undo
// that is finished the one that was new.
func TestFinishRemovesPreparedNames(t *testing.T) {
	const peer = "192.0.2.11:6443"
	w := newReconfiguredMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-cp2, namespace: kube-system, labels: {component: kube-apiserver},
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "`+peer+`"}}, spec: {nodeName: cp2}}`)
	names := []string{"cluster.example"}
	serve := func(more ...string) {
		names = append(names, more...)
		w.RemoteCertificates = map[string]*x509.Certificate{peer: {DNSNames: names}}
	}
	serve()
	change := func(host string) subject {
		s := changeEndpoint(host)
		s.newRun(w).mustSucceed(t) // the certificate
		checkNames(t, w, map[string]bool{host: true})
		if readChange(t, w).Endpoint != nil {
			t.Fatal("the endpoint changes before the other API server has a certificate")
		}
		serve(host)
		reportFollowed(t, w, "cp2")
		s.newRun(w).mustSucceed(t)
		reportFollowed(t, w, "cp2")
		return s
	}
	finishEndpoint(change("first.example")).newRun(w).mustSucceed(t)
	checkNames(t, w, map[string]bool{"first.example": true, "cluster.example": false})
	finishEndpoint(change("second.example")).newRun(w).mustSucceed(t)
	checkNames(t, w, map[string]bool{"second.example": true, "first.example": false})
	undoReconfigure(change("third.example")).newRun(w).mustSucceed(t)
	reportFollowed(t, w, "cp2")
	checkNames(t, w, map[string]bool{"second.example": true, "third.example": true})
	finishEndpoint(changeEndpoint("")).newRun(w).mustSucceed(t)
	checkNames(t, w, map[string]bool{"second.example": true, "third.example": false})
	if text := endpointPlaces(t, w)["kubeadm-config"]; strings.Contains(text, "third") || strings.Contains(text, "first") {
		t.Errorf("the configuration is\n%s", text)
	}
}

// A name that prepares a change of the endpoint is the user's own once the user lists it.
func TestListedPreparedNameStays(t *testing.T) {
	w := newReconfiguredMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}}}`)
	changeEndpoint("first.example").newRun(w).mustSucceed(t)
	if found := readChange(t, w); len(found.Prepared) != 1 {
		t.Fatalf("prepared are %v", found.Prepared)
	}
	s := reconfigureBy(request(reconfiguration.Request{Flags: config.ReconfigureFlags{AddCertSANs: []string{"other.example"}}}))
	s.newRun(w).mustSucceed(t)
	if found := readChange(t, w); len(found.Prepared) != 1 {
		t.Errorf("after another change, prepared are %v", found.Prepared)
	}
	reconfigureBy(request(reconfiguration.Request{Flags: config.ReconfigureFlags{AddCertSANs: []string{"first.example"}}})).newRun(w).mustSucceed(t)
	if found := readChange(t, w); len(found.Prepared) != 0 {
		t.Errorf("prepared are still %v", found.Prepared)
	}
}

// An IPv6 address as the previous endpoint leaves the certificates however it is written.
func TestFinishRemovesIPv6Address(t *testing.T) {
	const before = "[2001:DB8::0:1]:6443"
	s := changeEndpoint(newEndpoint)
	w := s.machine(t)
	editConfig(t, w, "cluster.example:6443", `"`+before+`"`)
	replaceInObject(t, w, "kube-public", "cluster-info", oldURL, "https://"+before)
	s.newRun(w).mustSucceed(t)
	checkNames(t, w, map[string]bool{"2001:db8::1": true})
	finishEndpoint(s).newRun(w).mustSucceed(t)
	checkNames(t, w, map[string]bool{"2001:db8::1": false})
}

// A worker whose kubeconfig led nowhere gets it back at once if the new endpoint fails too: its kubelet cannot reach the
// cluster.
func TestFailedFollowDoesNotWait(t *testing.T) {
	s := followEndpoint().with(func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		here.As.Server = bareURL
		w, err := reconfiguration.FindFollow(ctx, e, here)
		return w.Wanted, err
	})
	file := node.DefaultPaths().KubeletKubeconfig()
	w := s.machine(t)
	replaceInFile(t, w, "kubelet.conf", bareURL, "https://gone.example.com:6443")
	r := s.newRun(w)
	waits := 0
	r.observe = func(w world.World) world.World { return lostNode{w, &waits} }
	out := r.execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "run as before") || waits != 1 {
		t.Errorf("after %d waits for the Node, the command ended with: %v", waits, out.err)
	}
	if now := string(w.Files[file].Data); !strings.Contains(now, "gone.example.com") {
		t.Errorf("the kubelet connects to:\n%s", now)
	}
}

// lostNode is a world in which the kubelet never renews its Lease.
type lostNode struct {
	world.World
	waits *int
}

func (w lostNode) Await(ctx context.Context, c world.Condition) error {
	if strings.HasPrefix(c.Name, "Node ") {
		*w.waits++
		return errors.New("the kubelet has not renewed its Lease since it was restarted")
	}
	return w.World.Await(ctx, c)
}

// The remedy for a wrong cluster-info leads to the stored endpoint, whatever the administrator's kubeconfig has.
func TestClusterInfoLeadsToStoredEndpoint(t *testing.T) {
	w := newReconfiguredMachine(t)
	replaceInFile(t, w, "admin.conf", oldURL, "https://stale.example:6443")
	replaceInObject(t, w, "kube-public", "cluster-info", oldURL, "https://stale.example:6443")
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		e.Node = engine.Resolved(&node.Node{Local: here.Local})
		e.Admin = func(context.Context) (state.Identity, error) { return here.As, nil }
		return bootstraptoken.Phase.Run(ctx, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := endpointPlaces(t, w)["cluster-info"]; !strings.Contains(text, oldURL) {
		t.Errorf("cluster-info is\n%s", text)
	}
}
