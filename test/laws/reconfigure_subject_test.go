package laws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// reconfigured is the machine of newReconfiguredMachine, created once. Its clock stands still, so that all
// copies start at the same time.
var reconfigured struct {
	once  sync.Once
	world *fake.World
}

// newReconfiguredMachine is the only control plane node of a cluster whose Pods run.
func newReconfiguredMachine(t testing.TB) *fake.World {
	reconfigured.once.Do(func() { reconfigured.world = createReconfiguredMachine(t) })
	return withFastClock(reconfigured.world.Clone())
}

func createReconfiguredMachine(t testing.TB) *fake.World {
	w := newRotatingMachine(t)
	addMirrorPods(t, w, newVersion, "cp1")
	addObjects(t, w, fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease,
  metadata: {name: cp1, namespace: kube-node-lease},
  spec: {holderIdentity: cp1, renewTime: %q}}`,
		w.Now().Add(48*time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")))
	nodeKey := memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}
	w.Objects[nodeKey].Object["status"] = map[string]any{
		"nodeInfo":   map[string]any{"kubeletVersion": newVersion},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}
	stopClock(w)
	return w
}

const changedConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  certSANs: [api.example.com]
  extraArgs: [{name: event-ttl, value: 2h}]
scheduler:
  extraArgs: [{name: v, value: "3"}]
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 99
`

// findChange finds the change that a command makes.
type findChange func(context.Context, *engine.Env, existing.Machine) (reconfiguration.Wanted, error)

// reconfigureBy returns the command that makes the change that find finds.
func reconfigureBy(find findChange) subject {
	return subject{name: "reconfigure apply", phases: workflow.ReconfigureApply, node: "cp1",
		machine: newReconfiguredMachine, restores: true, repeats: true, replacesSome: true,
		setUp: func(t testing.TB, e *engine.Env) error {
			t.Helper()
			// Laws replace files by those of a user: a kubelet's configuration by one with other managers.
			here, err := openReconfigured(t, e, "NodeDrained")
			if err != nil {
				return err
			}
			if err := reconfiguration.Recover(t.Context(), e, here); err != nil {
				return err
			}
			wanted, err := find(t.Context(), e, here)
			if err != nil {
				return err
			}
			e.Local, e.Node, e.Intent, e.Admin = wanted.Node.Local, engine.Resolved(wanted.Node), wanted.Intent,
				engine.As(here.As)
			return nil
		}}
}

// openReconfigured opens the machine of a world as the commands do that change the configuration.
func openReconfigured(t testing.TB, e *engine.Env, ignored ...string) (existing.Machine, error) {
	local, err := config.ReconfigureNodeFlags{IgnorePreflightErrors: ignored}.Local()
	if err != nil {
		return existing.Machine{}, err
	}
	e.Local = local
	return existing.Open(t.Context(), e, existing.Options{RemoveTemporary: true})
}

// reconfigure returns the command that changes the configuration by a file.
func reconfigure(document string) subject {
	return reconfigureBy(request(reconfiguration.Request{File: config.File{Name: "cluster.yaml", Data: []byte(document)}}))
}

// request finds the change that a user requests of "kubeadm reconfigure apply".
func request(q reconfiguration.Request) findChange {
	return func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		return reconfiguration.FindWanted(ctx, e, here, q)
	}
}

// with returns the command with another way to find its change.
func (s subject) with(find findChange) subject {
	s.setUp = reconfigureBy(find).setUp
	return s
}

// undoReconfigure returns the command that takes back what s does.
func undoReconfigure(s subject) subject { return s.with(reconfiguration.FindUndo) }

// reconfigureNode returns the command with which a node follows.
func reconfigureNode(args config.KubeletArgs) subject {
	s := reconfigureBy(func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		return reconfiguration.FindStored(ctx, e, here, args)
	})
	s.name, s.phases = "reconfigure node", workflow.ReconfigureNode
	return s
}

// findIn calls a function that finds a change, in the cluster of a machine.
func findIn(t testing.TB, w *fake.World, find func(context.Context, *engine.Env, existing.Machine) error) error {
	t.Helper()
	e := engine.New(engine.Env{World: w, Tool: newDefaultTool(t), Emit: func(engine.Event) {}})
	here, err := openReconfigured(t, e)
	if err != nil {
		t.Fatal(err)
	}
	return find(t.Context(), e, here)
}

// tryFind finds a change in the cluster of a machine, and returns its error.
func tryFind(t testing.TB, w *fake.World, find findChange) error {
	t.Helper()
	return findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := find(ctx, e, here)
		return err
	})
}

// readChange reads the latest change of the configuration.
func readChange(t testing.TB, w *fake.World) *reconfiguration.State {
	t.Helper()
	found, err := reconfiguration.Read(t.Context(), w, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	return found
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

// baseOf is what a text names that was edited from a configuration.
func baseOf(t testing.TB, stored config.StoredConfig) string {
	t.Helper()
	base, err := reconfiguration.BaseOf(config.NewLocal(), stored)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// killAt kills the command before it changes something.
func (s subject) killAt(t *testing.T, target string) run {
	t.Helper()
	whole := s.newRun(s.machine(t)).mustSucceed(t)
	r := s.newRun(s.machine(t))
	r.fault = &fault.World{Crash: true, At: slices.IndexFunc(whole.did, func(c change.Change) bool {
		return strings.HasSuffix(c.Target(), target)
	})}
	if out := r.execute(t); !out.crashed {
		t.Fatalf("the run did not get as far as %s: %v", target, out.err)
	}
	return r
}
