package laws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// incompleteChange is half of another address or name, of this or another node.
type incompleteChange struct {
	leave       func(t testing.TB, w *fake.World)
	err, remedy string
	completes   string // the command whose re-run completes it
}

// incompleteChanges are what interrupted commands leave.
func incompleteChanges() map[string]incompleteChange {
	file := func(name, text string) func(testing.TB, *fake.World) {
		return func(_ testing.TB, w *fake.World) {
			overwriteFile(w, node.DefaultPaths().Journal()+"/"+name, []byte(text))
		}
	}
	annotated := func(name, annotation, value string) func(testing.TB, *fake.World) {
		return func(t testing.TB, w *fake.World) {
			addObjects(t, w, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, annotations: {%s: %q},
  labels: {node-role.kubernetes.io/control-plane: ""}}}`, name, annotation, value))
		}
	}
	return map[string]incompleteChange{
		"this node's name": {file("renaming.json", `{"original": "cp1", "other": "rack7", "to": "rack7"}`),
			"the change of this node's name from cp1 to rack7 is not complete", "kubeadm node-name change rack7", "node-name change"},
		"another node's name": {annotated("rack9", node.RenamedFromAnnotation, "cp2"),
			"the change of a node's name from cp2 to rack9 is not complete", "kubeadm node-name change rack9", ""},
		"this node's address": {file("addresses.json", `{"from": ["192.0.2.10"], "to": "192.0.2.20"}`),
			"the move of this node to 192.0.2.20", "kubeadm address change 192.0.2.20", "address change"},
		"another node's address": {annotated("cp2", node.MovingToAnnotation, "192.0.2.21"),
			"the move of node cp2 to 192.0.2.21 is not complete", "kubeadm address change 192.0.2.21", ""},
	}
}

// changingCommands are the commands that change nodes of a cluster in some order, each on a control plane node.
func changingCommands(t testing.TB) []subject {
	t.Helper()
	args, err := config.ParseKubeletArgs([]string{"max-pods=50"})
	if err != nil {
		t.Fatal(err)
	}
	rotates := rotateCA(rotation.Trust, rotation.Options{})
	rotates.machine = newRotatingMachine
	return append(upgradeSubjects()[:2], reconfigure(changedConfig), reconfigureNode(args), rotates,
		changeAddress(newMovingMachine, newAddress), changeNodeName(newNamedMachine, newName))
}

// While a control plane node has half of another address or name, nothing else is begun, and the error says how to complete it.
func TestIncompleteChangeOfNode(t *testing.T) {
	all := incompleteChanges()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, s := range changingCommands(t) {
			if s.name == all[name].completes {
				continue
			}
			t.Run(name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				w := s.machine(t)
				all[name].leave(t, w)
				out := s.newRun(w).execute(t)
				if out.err == nil || !strings.Contains(out.err.Error(), all[name].err) ||
					!strings.Contains(strings.Join(problem.Hints(out.err), "\n"), all[name].remedy) {
					t.Errorf("got %v %q, want %q %q", out.err, problem.Hints(out.err), all[name].err, all[name].remedy)
				}
				if len(out.did) > 0 {
					t.Errorf("it has changed %v", describeChanges(out.did))
				}
			})
		}
	}
}

// Nor where another node began such a change while the command waited for the lock of the cluster.
func TestIncompleteChangeBegunMeanwhile(t *testing.T) {
	for name, c := range incompleteChanges() {
		if !strings.HasPrefix(name, "another") {
			continue
		}
		for _, s := range changingCommands(t) {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				r := s.newRun(s.machine(t))
				r.observe = func(below world.World) world.World {
					return meanwhile{below, clusterLock, new(sync.Once), func() { c.leave(t, r.machine) }}
				}
				mustFail(t, r, c.err)
				if _, isOwn := r.machine.Files[node.DefaultPaths().Journal()+"/addresses.json"]; isOwn {
					t.Error("it has begun a move")
				}
			})
		}
	}
}

// A worker whose name is changed, or whose kubelet says so, keeps nothing from going on.
func TestIncompleteChangeOfWorker(t *testing.T) {
	w := newReconfiguredMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: rack9, annotations: {kubeadm.kubernetes.io/renamed-from: worker1,
  kubeadm.kubernetes.io/moving-to: 192.0.2.99}}}`)
	reconfigure(changedConfig).newRun(w).mustSucceed(t)
}

// A worker whose own name is changed is neither upgraded nor reconfigured before that is complete.
func TestWorkerWithIncompleteName(t *testing.T) {
	s := upgradeSubjects()[2]
	w := s.machine(t)
	overwriteFile(w, node.DefaultPaths().Journal()+"/renaming.json", []byte(`{"original": "worker1", "other": "rack7", "to": "rack7"}`))
	out := s.newRun(w).execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "from worker1 to rack7 is not complete") || len(out.did) > 0 {
		t.Errorf("got %v, and %v", out.err, describeChanges(out.did))
	}
}

// beginUpgrade lets another control plane node run a version that the cluster does not store.
func beginUpgrade(t testing.TB, w *fake.World) {
	t.Helper()
	addObjects(t, w, `{apiVersion: v1, kind: Pod, metadata: {name: kube-apiserver-cp2, namespace: kube-system,
  labels: {component: kube-apiserver, tier: control-plane}}, spec: {nodeName: cp2, containers: [
  {name: kube-apiserver, image: "registry.k8s.io/kube-apiserver:v1.37.0"}]}}`)
}

// What was interrupted is completed although an upgrade has been begun since: that waits for it, so that neither could end.
func TestInterruptedChangeIsCompletedDuringUpgrade(t *testing.T) {
	for _, c := range []struct {
		subject
		at    string
		check func(t *testing.T, w *fake.World)
	}{
		{changeAddress(newPreparedMachineOfThree, newAddress), "kube-apiserver.yaml",
			func(t *testing.T, w *fake.World) { checkAddress(t, w, newAddress, presentAddress) }},
		{changeNodeName(newNamedMachine, newName), "kubeadm-flags.env",
			func(t *testing.T, w *fake.World) { checkRenamed(t, w, newName, "cp1") }},
		// All manifests have moved, but others still wait for this node.
		{changeAddress(newPreparedMachineOfThree, newAddress), "kubeadm-flags.env",
			func(t *testing.T, w *fake.World) { checkAddress(t, w, newAddress, presentAddress) }},
	} {
		t.Run(c.name+" at "+c.at, func(t *testing.T) {
			w := c.machine(t)
			beginUpgrade(t, w)
			if err := c.newRun(w).execute(t).err; err == nil || !strings.Contains(err.Error(), "an upgrade is in progress") {
				t.Errorf("begun during an upgrade: %v", err)
			}
			r := c.killAt(t, c.at)
			beginUpgrade(t, r.machine)
			r.rerun().mustSucceed(t)
			c.check(t, r.machine)
		})
	}
}

// As long as a node moves, its Node says where; also if that is interrupted.
func TestMoveIsSeenByOthers(t *testing.T) {
	moving := func(w *fake.World) string {
		return w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}].GetAnnotations()[node.MovingToAnnotation]
	}
	s := changeAddress(newPreparedMachineOfThree, newAddress)
	r := s.killAt(t, "kubeadm-flags.env")
	if got := moving(r.machine); got != newAddress {
		t.Errorf("the Node says that it moves to %q", got)
	}
	r.rerun().mustSucceed(t)
	if got := moving(r.machine); got != "" {
		t.Errorf("the Node still says that it moves to %q", got)
	}
	// Killed before its last step, the command is not run again, as nothing seems to be left: finish removes the mark.
	key := memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}
	r.machine.Objects[key].SetAnnotations(map[string]string{node.MovingToAnnotation: newAddress})
	r.machine.Interfaces = slices.DeleteFunc(r.machine.Interfaces,
		func(a state.Address) bool { return a.IP == presentAddress })
	finishAddress(s).newRun(r.machine).mustSucceed(t)
	if got := moving(r.machine); got != "" {
		t.Errorf("after finish the Node says that it moves to %q", got)
	}
}
