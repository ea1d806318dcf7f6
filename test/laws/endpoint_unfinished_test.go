package laws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// A user's file that lacks the host from before, as the user has never listed it or no longer does, leaves it in the
// certificates until the change of the endpoint is finished. One that the user lists meanwhile stays.
func TestBothNamesStayUntilFinish(t *testing.T) {
	const document = clusterDocument + "controlPlaneEndpoint: " + newEndpoint + "\n"
	file := func(text string) reconfiguration.Request {
		return reconfiguration.Request{File: config.File{Name: "cluster.yaml", Data: []byte(text)}}
	}
	for name, c := range map[string]struct {
		listed  bool // before the change
		request reconfiguration.Request
		edits   bool // the request is made in an editor
		stays   bool // after the end
	}{
		"file":                    {request: file(document)},
		"file without a listed":   {listed: true, request: file(document)},
		"file with the name":      {request: file(document + "apiServer: {certSANs: [cluster.example]}\n"), stays: true},
		"edited without it":       {request: file(document), edits: true},
		"edited with it":          {request: file(document + "apiServer: {certSANs: [cluster.example]}\n"), edits: true},
		"flag":                    {request: reconfiguration.Request{Flags: config.ReconfigureFlags{AddCertSANs: []string{"cluster.example"}}}, stays: true},
		"feature gate":            {request: reconfiguration.Request{Flags: config.ReconfigureFlags{FeatureGates: []string{"AllAlpha=true"}}}},
		"a file and another name": {request: file(document + "apiServer: {certSANs: [more.example.com]}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReconfiguredMachine(t)
			if c.listed {
				editConfig(t, w, "apiServer: {}", "apiServer: {certSANs: [cluster.example]}")
			}
			s := changeEndpoint(newEndpoint)
			s.newRun(w).mustSucceed(t)
			if c.edits {
				c.request.Base = baseOf(t, readChange(t, w).After)
			}
			apply := reconfigureBy(request(c.request))
			apply.newRun(w).mustSucceed(t)
			id := readChange(t, w).ID
			apply.newRun(w).mustSucceed(t)
			if again := readChange(t, w).ID; again != id {
				t.Error("the same command begins another change")
			}
			checkNames(t, w, map[string]bool{"cluster.example": true, "api.example.com": true})
			finishEndpoint(s).newRun(w).mustSucceed(t)
			checkNames(t, w, map[string]bool{"cluster.example": c.stays, "api.example.com": true})
		})
	}
}

// Wherever the end of a change of the endpoint is killed, it is not forgotten: another change is refused, and an undo
// returns to both endpoints, also of an end that is complete. Then it can be finished again.
func TestUndoneFinishIsFinishedAgain(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	finish := finishEndpoint(s)
	finish.machine = func(t testing.TB) *fake.World {
		w := newReconfiguredMachine(t)
		s.newRun(w).mustSucceed(t)
		return w
	}
	check := func(t *testing.T, r run) {
		undo := r.rerun()
		undo.subject = undoReconfigure(s)
		undo.mustSucceed(t)
		checkNames(t, r.machine, map[string]bool{"cluster.example": true, "api.example.com": true})
		if found := readChange(t, r.machine); found.Endpoint == nil {
			t.Fatal("the change of the endpoint is forgotten")
		}
		finish.newRun(r.machine).mustSucceed(t)
		checkNames(t, r.machine, map[string]bool{"cluster.example": false, "api.example.com": true})
	}
	t.Run("complete", func(t *testing.T) {
		r := finish.newRun(finish.machine(t))
		r.mustSucceed(t)
		check(t, r)
	})
	finish.killEverywhere(t, func(t *testing.T, r killedRun) {
		found := readChange(t, r.machine)
		if found.Endpoint != nil || found.Stored != nil {
			return // the end has not begun, or is complete
		}
		if found.EndpointState() == nil {
			t.Error("the change of the endpoint is not shown any more")
		}
		for _, endpoint := range []string{newEndpoint, "other.example.com"} {
			if err := tryFind(t, r.machine, findEndpoint(endpoint)); err == nil {
				t.Errorf("a change to %s may begin", endpoint)
			}
		}
		check(t, r.run)
	})
}

// withForeignEdit edits another part of the stored configuration than the endpoint, as a user or an upgrade does.
func withForeignEdit(t testing.TB, w *fake.World) {
	editConfig(t, w, "scheduler: {}", `scheduler: {extraArgs: [{name: v, value: "4"}]}`)
}

// A configuration that was edited by hand, before the change of the endpoint or while it is interrupted, is gone on
// from: the same command completes the change, and an undo takes it back. The edit stays.
func TestInterruptedEndpointChangeOfEditedConfig(t *testing.T) {
	for name, c := range map[string]struct {
		machine       func(testing.TB) *fake.World
		before, later func(testing.TB, *fake.World)
		old           string
	}{
		"endpoint edited before": {machine: newReconfiguredMachine, old: oldURL,
			before: func(t testing.TB, w *fake.World) { editConfig(t, w, "cluster.example:6443", newEndpoint) }},
		"endpoint added before": {machine: newBareMachine, old: bareURL, before: func(t testing.TB, w *fake.World) {
			editConfig(t, w, "clusterName: kubernetes", "controlPlaneEndpoint: "+newEndpoint+"\nclusterName: kubernetes")
		}},
		"other field edited while it is interrupted": {machine: newReconfiguredMachine, old: oldURL, later: withForeignEdit},
	} {
		t.Run(name, func(t *testing.T) {
			s := changeEndpoint(newEndpoint)
			s.machine = func(t testing.TB) *fake.World {
				w := c.machine(t)
				if c.before != nil {
					c.before(t, w)
				}
				return w
			}
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				found := readChange(t, r.machine)
				if c.later != nil {
					c.later(t, r.machine)
				}
				if found == nil || found.Stored != nil {
					return
				}
				other := r
				other.machine = r.machine.Clone()
				again := r.rerun()
				again.mustSucceed(t)
				checkEndpointPlaces(t, again.machine, "https://"+newEndpoint)
				checkNames(t, again.machine, map[string]bool{hostOf(c.old): true, "api.example.com": true})
				undo := other.rerun()
				undo.subject = undoReconfigure(s)
				undo.mustSucceed(t)
				checkEndpointPlaces(t, undo.machine, c.old)
				for _, w := range []*fake.World{again.machine, undo.machine} {
					text := endpointPlaces(t, w)["kubeadm-config"]
					if c.later != nil && !strings.Contains(text, `value: "4"`) {
						t.Errorf("the edit is lost:\n%s", text)
					}
					finishEndpoint(s).newRun(w).mustSucceed(t)
				}
				checkNames(t, again.machine, map[string]bool{hostOf(c.old): c.old == bareURL, "api.example.com": true})
				checkNames(t, undo.machine, map[string]bool{hostOf(c.old): true, "api.example.com": false})
			})
		})
	}
}

// An interrupted change of the endpoint whose configuration was given a third one names the only way out.
func TestInterruptedEndpointChangeToAThirdOne(t *testing.T) {
	w := changeEndpoint(newEndpoint).killAt(t, "kubeadm-config").machine
	editConfig(t, w, "cluster.example:6443", "third.example.com:6443")
	for name, find := range map[string]findChange{"change": findEndpoint(newEndpoint), "undo": reconfiguration.FindUndo} {
		err := tryFind(t, w, find)
		if hints := strings.Join(problem.Hints(err), "\n"); !strings.Contains(hints, "kubectl delete secret,configmap") {
			t.Errorf("%s: %v, with the hints:\n%s", name, err, hints)
		}
	}
}

// unreachable is a world from which a server cannot be reached.
type unreachable struct {
	world.World
	server string
}

func (u unreachable) Await(ctx context.Context, c world.Condition) error {
	if strings.Contains(c.Name, u.server) {
		return errors.New("no route to host")
	}
	return u.World.Await(ctx, c)
}

// Wherever a change of the endpoint is killed before the new endpoint breaks, the same command does not forget it as
// soon as a place outside this node has it, and an undo leads back from there.
func TestBrokenEndpointIsNotForgotten(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		if found := readChange(t, r.machine); found == nil || found.Stored != nil {
			return
		}
		again := r.rerun()
		again.observe = func(w world.World) world.World { return unreachable{w, "https://" + newEndpoint} }
		if out := again.execute(t); out.err == nil {
			t.Fatal("the command succeeded without the endpoint")
		}
		if readChange(t, r.machine) == nil {
			checkEndpointPlaces(t, r.machine, oldURL)
			return
		}
		undo := r.rerun()
		undo.subject = undoReconfigure(s)
		undo.mustSucceed(t)
		checkEndpointPlaces(t, r.machine, oldURL)
	})
}

// A change that fails during that of the endpoint is taken back as always: what has the new endpoint keeps it.
func TestFailedReconfigureKeepsEndpoint(t *testing.T) {
	w := newReconfiguredMachine(t)
	changeEndpoint(newEndpoint).newRun(w).mustSucceed(t)
	before := readChange(t, w).ID
	s := reconfigureBy(request(reconfiguration.Request{
		Flags: config.ReconfigureFlags{SetArgs: []string{"kube-scheduler:v=3"}}}))
	whole := s.newRun(w.Clone()).mustSucceed(t)
	failing := s.newRun(w)
	failing.fault = &fault.World{At: slices.IndexFunc(whole.did, func(c change.Change) bool {
		return strings.HasSuffix(c.Target(), "kube-scheduler.yaml")
	})}
	if out := failing.execute(t); out.err == nil || !strings.Contains(out.err.Error(), "run as before") {
		t.Errorf("the command ended with: %v", out.err)
	}
	checkEndpointPlaces(t, w, "https://"+newEndpoint)
	if found := readChange(t, w); found.ID != before || found.Endpoint == nil {
		t.Errorf("the latest change is %+v", found)
	}
}

// A load balancer on each node stays what kube-proxy and kubelets use, and is no previous endpoint.
func TestOwnBalancerStays(t *testing.T) {
	const own = "https://127.0.0.1:6443"
	w := newReconfiguredMachine(t)
	key := memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "kube-proxy"}
	u := w.Objects[key].DeepCopy()
	text, _, _ := unstructured.NestedString(u.Object, "data", "kubeconfig.conf")
	if err := unstructured.SetNestedField(u.Object, strings.Replace(text, oldURL, own, 1), "data", "kubeconfig.conf"); err != nil {
		t.Fatal(err)
	}
	w.Objects[key] = u
	before := fmt.Sprint(u.Object["data"])
	changeEndpoint(newEndpoint).newRun(w).mustSucceed(t)
	if now := fmt.Sprint(w.Objects[key].Object["data"]); now != before {
		t.Errorf("kube-proxy has changed:\n%s", diffLines(before, now))
	}
	if c := readChange(t, w).Endpoint; !slices.Equal(c.From, []string{oldURL}) || c.LeavesFrom(own) {
		t.Errorf("the previous endpoint is %v", c.From)
	}
	finishEndpoint(reconfigure("")).newRun(w).mustSucceed(t)
}

// A node that was lost while it changed the endpoint stops neither the change nor its undo, once its Node is deleted.
func TestEndpointChangeOfALostNode(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	r := s.killAt(t, "kubeadm-config")
	w := r.machine
	found := readChange(t, w)
	found.Node = "lost"
	changes, err := found.StoreChanges(state.Identity{})
	for _, c := range changes {
		if err == nil {
			err = w.Do(t.Context(), c)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	gone := w.Clone()
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: lost, labels: {node-role.kubernetes.io/control-plane: ""}}}`)
	for name, find := range map[string]findChange{"change": findEndpoint(newEndpoint), "undo": reconfiguration.FindUndo} {
		err := tryFind(t, w, find)
		if hints := strings.Join(problem.Hints(err), "\n"); !strings.Contains(hints, "kubectl delete node") {
			t.Errorf("%s: %v, with the hints:\n%s", name, err, hints)
		}
	}
	for server, command := range map[string]subject{oldURL: undoReconfigure(s), "https://" + newEndpoint: s} {
		r.subject, r.machine = command, gone.Clone()
		r.rerun().mustSucceed(t)
		checkEndpointPlaces(t, r.machine, server)
	}
}

// A node that joins while the user is asked, or another command holds the lock, is not overlooked.
func TestNodeJoinsBeforeLock(t *testing.T) {
	s := changeEndpoint(newEndpoint)
	changed := s.machine(t)
	s.newRun(changed).mustSucceed(t)
	for name, c := range map[string]struct {
		subject
		machine *fake.World
		joins   string
	}{
		"change": {s, s.machine(t),
			`{apiVersion: v1, kind: Node, metadata: {name: joined, labels: {node-role.kubernetes.io/control-plane: ""}}}`},
		"finish": {finishEndpoint(s), changed, `{apiVersion: v1, kind: Node, metadata: {name: joined}}`},
	} {
		t.Run(name, func(t *testing.T) {
			setUp := c.setUp
			c.setUp = func(t testing.TB, e *engine.Env) error {
				err := setUp(t, e)
				addObjects(t, c.machine, c.joins)
				return err
			}
			before := readChange(t, c.machine)
			places := fmt.Sprint(endpointPlaces(t, c.machine))
			if out := c.newRun(c.machine).execute(t); out.err == nil || !strings.Contains(out.err.Error(), "joined") {
				t.Errorf("the command ended with: %v", out.err)
			}
			if after := readChange(t, c.machine); fmt.Sprint(places) != fmt.Sprint(endpointPlaces(t, c.machine)) ||
				(before == nil) != (after == nil) || before != nil && before.ID != after.ID {
				t.Errorf("the latest change is %+v", after)
			}
			checkNames(t, c.machine, map[string]bool{"cluster.example": true})
		})
	}
}

// A cluster without an endpoint can be given the address of its control plane node, so that others join. While it
// has others, that is not taken back.
func TestOwnAddressAsEndpoint(t *testing.T) {
	s := changeEndpoint("192.0.2.10")
	w := newBareMachine(t)
	s.newRun(w).mustSucceed(t)
	if text := endpointPlaces(t, w)["kubeadm-config"]; !strings.Contains(text, "controlPlaneEndpoint: 192.0.2.10:6443") {
		t.Errorf("the configuration has no endpoint:\n%s", text)
	}
	err := tryFind(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		found, err := reconfiguration.FindEndpoint(ctx, e, here, "192.0.2.10")
		if err == nil && !found.Done {
			err = errors.New("the same command begins another change")
		}
		return found.Wanted, errors.Join(err, reconfiguration.CheckFollowed(ctx, e, here.As))
	})
	if err != nil {
		t.Error(err)
	}
	several := w.Clone()
	addObjects(t, several, `{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}}}`)
	if err := tryFind(t, several, reconfiguration.FindUndo); err == nil || !strings.Contains(err.Error(), "cp2") {
		t.Errorf("the undo: %v", err)
	}
	undoReconfigure(s).newRun(w).mustSucceed(t)
	checkEndpointPlaces(t, w, bareURL)
	changeEndpoint(newEndpoint).newRun(w).mustSucceed(t)
}
