package laws

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// Which components are replaced by one half of a change of feature gates.
var (
	onlyAPIServer = []string{release.APIServer}
	otherGates    = []string{release.ControllerManager, release.Scheduler, "kubelet"}
	reversedGates = []string{"kubelet", release.Scheduler, release.ControllerManager}
)

// changeGate returns the command that changes a feature gate.
func changeGate(gate string) subject {
	return reconfigure("").with(request(reconfiguration.Request{Flags: config.ReconfigureFlags{FeatureGates: []string{gate}}}))
}

// listReplaced runs a command, and returns the components that it replaces, and "kubelet", in their order.
func (s subject) listReplaced(t *testing.T, w *fake.World) (replaced []string, err error) {
	t.Helper()
	out := s.newRun(w).execute(t)
	for _, did := range out.did {
		file := strings.TrimPrefix(did.Target(), change.FileTarget(""))
		if component, ok := strings.CutPrefix(file, "/etc/kubernetes/manifests/"); ok {
			replaced = append(replaced, strings.TrimSuffix(component, ".yaml"))
		}
		if file == "/var/lib/kubelet/config.yaml" {
			replaced = append(replaced, "kubelet")
		}
	}
	return replaced, out.err
}

// mustReplace runs a command, and checks which components it replaces.
func (s subject) mustReplace(t *testing.T, w *fake.World, want []string) {
	t.Helper()
	if got, err := s.listReplaced(t, w); err != nil || !slices.Equal(got, want) {
		t.Fatalf("it replaces %q, not %q: %v", got, want, err)
	}
}

// mustWaitFor checks that a command is refused because a node has not followed, and lets that node follow.
func (s subject) mustWaitFor(t *testing.T, w *fake.World, name string) {
	t.Helper()
	var refused error
	early := s.newRun(w)
	early.subject.setUp = func(t testing.TB, e *engine.Env) error {
		refused = s.setUp(t, e)
		return nil
	}
	early.phases = []engine.Phase{}
	if early.execute(t); refused == nil || !strings.Contains(refused.Error(), name) {
		t.Errorf("it goes on although %s has not followed: %v", name, refused)
	}
	follow(t, w, name)
}

// follow lets a node say that it has followed the latest change.
func follow(t *testing.T, w *fake.World, name string) {
	t.Helper()
	if err := w.Do(t.Context(), readChange(t, w).ReportChange(name, state.Identity{})); err != nil {
		t.Fatal(err)
	}
}

// With a second control plane node, a feature gate is turned on in all API servers first, and turned off in them
// last. The second half of the change waits for all nodes.
func TestGatesOfSeveralControlPlanes(t *testing.T) {
	w := newReconfiguredMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: cp2, labels: {node-role.kubernetes.io/control-plane: ""}}}`)
	for _, c := range []struct {
		gate          string
		first, second []string
	}{
		{"AllAlpha=true", onlyAPIServer, otherGates}, {"AllAlpha-", reversedGates, onlyAPIServer},
		{"AllBeta=false", reversedGates, onlyAPIServer}, {"AllBeta-", onlyAPIServer, otherGates}, // removed, it may be on again
	} {
		s := changeGate(c.gate)
		s.mustReplace(t, w, c.first)
		s.mustWaitFor(t, w, "cp2")
		if strings.HasPrefix(c.gate, "AllAlpha") {
			checkKilledHalf(t, s, w)
		}
		s.mustReplace(t, w, c.second)
	}
}

// With one control plane node and workers, a feature gate is turned off in the API server once the kubelets of the workers
// have lost it. One that is turned on, the API server has first anyway.
func TestGatesOfOneControlPlaneAndWorkers(t *testing.T) {
	w := newReconfiguredMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: worker1}}`)
	whole := append(slices.Clone(onlyAPIServer), otherGates...)
	for _, c := range []struct {
		gate          string
		first, second []string // second is nil if there is only one change
	}{
		{"AllAlpha=true", whole, nil}, {"AllAlpha-", reversedGates, onlyAPIServer},
		{"AllBeta=false", reversedGates, onlyAPIServer}, {"AllBeta-", whole, nil},
		{"kube-apiserver:AllBeta=false", onlyAPIServer, nil},
	} {
		s := changeGate(c.gate)
		s.mustReplace(t, w, c.first)
		if c.second == nil {
			follow(t, w, "worker1")
			continue
		}
		s.mustWaitFor(t, w, "worker1")
		checkKilledHalf(t, s, w)
		s.mustReplace(t, w, c.second)
	}
}

// An undo, too, takes a gate from the API server only once the nodes that have it, or may have it, have lost it. If none can
// have it, it goes at once.
func TestUndoOfGates(t *testing.T) {
	for name, followed := range map[string]func(*testing.T, *fake.World){
		"a worker has followed":  func(t *testing.T, w *fake.World) { follow(t, w, "worker1") },
		"no worker has followed": nil,
		"a worker was killed": func(t *testing.T, w *fake.World) {
			begin := readChange(t, w).ReportBegin(w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "worker1"}], state.Identity{})
			if err := w.Do(t.Context(), begin); err != nil {
				t.Fatal(err)
			}
		},
		"a worker was registered again": func(t *testing.T, w *fake.World) {
			key := memory.Key{Kind: state.NodeKind.GroupKind(), Name: "worker1"}
			again := w.Objects[key].DeepCopy()
			again.SetUID("another")
			w.Objects[key] = again
		},
		"a worker joined meanwhile": func(t *testing.T, w *fake.World) {
			addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: worker2}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReconfiguredMachine(t)
			addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: worker1}}`)
			on, undo := changeGate("AllAlpha=true"), undoReconfigure(changeGate(""))
			on.mustReplace(t, w, append(slices.Clone(onlyAPIServer), otherGates...))
			if followed == nil {
				undo.mustReplace(t, w, append(slices.Clone(reversedGates), onlyAPIServer...))
				undo.mustReplace(t, w, nil)
				return
			}
			followed(t, w)
			checkKilledHalf(t, undo, w)
			undo.mustReplace(t, w, reversedGates)
			if name == "a worker joined meanwhile" {
				follow(t, w, "worker2")
			}
			undo.mustWaitFor(t, w, "worker1")
			checkKilledHalf(t, undo, w)
			undo.mustReplace(t, w, onlyAPIServer)
			undo.mustReplace(t, w, nil)
		})
	}
}

// checkKilledHalf kills one half of a change of feature gates after each of its changes: the same command
// goes on with it, and does not begin with the first half again.
func checkKilledHalf(t *testing.T, s subject, w *fake.World) {
	t.Helper()
	done := w.Clone()
	out, killed := s.newRun(done).killedEverywhere(t)
	for _, r := range killed {
		if len(r.did) == 0 || !strings.HasPrefix(r.name, "after") {
			continue
		}
		if own := r.machine.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}]; readChange(t, r.machine).Rest != nil &&
			own.GetAnnotations()[reconfiguration.NodeAnnotation] == readChange(t, r.machine).ID {
			continue // the first half of an undo is complete
		}
		r.rerun().mustSucceed(t)
		for _, file := range append(listManifests(), "/var/lib/kubelet/config.yaml") {
			if diff := diffLines(string(done.Files[file].Data), string(r.machine.Files[file].Data)); diff != "" {
				t.Fatalf("killed after %s: %s:\n%s", out.did[r.nth], file, diff)
			}
		}
	}
}
