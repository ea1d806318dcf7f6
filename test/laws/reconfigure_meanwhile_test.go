package laws

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// meanwhile is a world in which another client acts before the first change of a target.
type meanwhile struct {
	world.World
	target string
	once   *sync.Once
	act    func()
}

func (m meanwhile) Do(ctx context.Context, c change.Change) error {
	if strings.HasSuffix(c.Target(), m.target) {
		m.once.Do(m.act)
	}
	return m.World.Do(ctx, c)
}

// What another client stores while a change is being made is not overwritten: kubectl and upstream's kubeadm do not take
// the cluster's lock.
func TestReconfigureKeepsEditMeanwhile(t *testing.T) {
	document := clusterDocument + "dns: {imageRepository: registry.example.com/dns}\n"
	s := reconfigure(document)
	const kept = "copy your changes from /tmp/kept.yaml"
	fromKeptFile := s.with(func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		wanted, err := reconfiguration.FindWanted(ctx, e, here, reconfiguration.Request{
			File: config.File{Name: "kept.yaml", Data: []byte(document)}})
		wanted.KeptFileHints = []string{kept}
		return wanted, err
	})
	for want, s := range map[string]subject{"run this command again": s, kept: fromKeptFile} {
		r := s.newRun(s.machine(t))
		r.observe = func(w world.World) world.World {
			return meanwhile{w, "coredns", new(sync.Once), func() {
				editConfig(t, r.machine, "kind: ClusterConfiguration", "kind: ClusterConfiguration\nfeatureGates: {NodeLocalCRISocket: true}")
			}}
		}
		err := r.execute(t).err
		if err == nil || !strings.Contains(err.Error(), "was changed meanwhile, and is not overwritten") {
			t.Errorf("got %v", err)
		}
		hints := strings.Join(problem.Hints(err), "\n")
		if !strings.Contains(hints, want) || want == kept && strings.Contains(hints, "run this command again") {
			t.Errorf("the hints are:\n%s", hints)
		}
		u := r.machine.Objects[memory.Key{Kind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "kube-system", Name: "kubeadm-config"}]
		if text, _, _ := unstructured.NestedString(u.Object, "data", "ClusterConfiguration"); !strings.Contains(text, "NodeLocalCRISocket") {
			t.Errorf("the edit is lost:\n%s", text)
		}
	}
}

// A node that follows the stored change leaves a later one, which another node has begun, the latest.
func TestFollowingKeepsUnfinishedChange(t *testing.T) {
	w := newReconfiguredMachine(t)
	reconfigure(changedConfig).newRun(w).mustSucceed(t)
	stored := readChange(t, w)
	begun := reconfiguration.New("cp2", stored.After, stored.Before, w.Now())
	begun.ControlPlanes, begun.Workers, begun.Addons, begun.Earlier = true, true, true, stored
	changes, err := begun.StoreChanges(state.Identity{})
	for _, c := range changes {
		if err == nil {
			err = w.Do(t.Context(), c)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	args, err := config.ParseKubeletArgs([]string{"max-pods=50"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reconfigureNode(args).newRun(w).mustSucceed(t)
		if now := readChange(t, w); now.ID != begun.ID || now.Earlier == nil || now.Earlier.ID != stored.ID {
			t.Fatalf("the latest change is %s, and not %s before %s", now.ID, begun.ID, stored.ID)
		}
	}
}

// A change that replaces one which was not completed leads CoreDNS back too, if that has it already.
func TestReplacedReconfigureLeadsAddonsBack(t *testing.T) {
	s := reconfigure(clusterDocument + "dns: {imageRepository: registry.example.com/dns}\n")
	r := s.killAt(t, "kubeadm-config")
	image := func() string {
		u := r.machine.Objects[memory.Key{Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"},
			Namespace: "kube-system", Name: "coredns"}]
		return fmt.Sprint(u.Object["spec"])
	}
	if !strings.Contains(image(), "registry.example.com") {
		t.Fatalf("CoreDNS has not changed: %s", image())
	}
	again := r.rerun()
	again.subject = reconfigure(clusterDocument)
	again.mustSucceed(t)
	if strings.Contains(image(), "registry.example.com") {
		t.Errorf("CoreDNS keeps the image: %s", image())
	}
}

// Wherever a take-back is killed, an undo completes it and leaves the change before it as the latest one, which a further
// undo takes back.
func TestKilledTakeBackLeavesEarlierChange(t *testing.T) {
	before := newReconfiguredMachine(t)
	first := reconfigure(changedConfig)
	w := before.Clone()
	first.newRun(w).mustSucceed(t)
	earlier := readChange(t, w)
	second := reconfigure(clusterDocument + "dns: {imageRepository: registry.example.com/dns}\n")
	second.machine = func(testing.TB) *fake.World { return withFastClock(w.Clone()) }
	begun := second.killAt(t, "kubeadm-config").machine
	back := second.with(func(ctx context.Context, e *engine.Env, here existing.Machine) (reconfiguration.Wanted, error) {
		wanted, err := reconfiguration.FindUndo(ctx, e, here)
		if err == nil {
			wanted.Change.Forgets = true
		}
		return wanted, err
	})
	back.machine = func(testing.TB) *fake.World { return withFastClock(begun.Clone()) }
	back.killEverywhere(t, func(t *testing.T, r killedRun) {
		found := readChange(t, r.machine)
		if found == nil || found.ID != earlier.ID && found.Undoes == "" {
			return // the take-back has not begun
		}
		undo := r.rerun()
		undo.subject = undoReconfigure(second)
		if found.ID != earlier.ID {
			undo.mustSucceed(t)
		}
		if left := readChange(t, r.machine); left == nil || left.ID != earlier.ID {
			t.Fatalf("the latest change is %+v", left)
		}
		again := undo.rerun()
		again.mustSucceed(t)
		checkUntouched(t, before, r.machine)
	})
}

// Wherever a node was killed while it took a change back, an undo completes that, forgets the change and takes back no other.
func TestKilledTakeBackOfNodeLeavesEarlierChange(t *testing.T) {
	for name, isFirst := range map[string]bool{"first change": true, "later change": false} {
		t.Run(name, func(t *testing.T) {
			w, latest := newReconfiguredMachine(t), ""
			if !isFirst {
				reconfigure(changedConfig).newRun(w).mustSucceed(t)
				latest = readChange(t, w).ID
			}
			testKilledTakeBackOfNode(t, w, latest)
		})
	}
}

// testKilledTakeBackOfNode kills a change of the kubelet, which does not run with it, after each step from the restored file on.
func testKilledTakeBackOfNode(t *testing.T, w *fake.World, latest string) {
	t.Helper()
	const record = "/reconfiguring.json"
	kubelet := node.DefaultPaths().KubeletConfig()
	before := string(w.Files[kubelet].Data)
	second := reconfigure(strings.Replace(changedConfig, "maxPods: 99", "maxPods: 77", 1))
	newFailing := func() run {
		r := second.newRun(w.Clone())
		r.machine.BrokenKubelet = "maxPods: 77"
		return r
	}
	out := newFailing().execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "run as before") {
		t.Fatalf("the change ended with: %v", out.err)
	}
	restored, removed := -1, -1
	for i, c := range out.did {
		switch {
		case strings.HasSuffix(c.Target(), kubelet):
			restored = i
		case strings.HasSuffix(c.Target(), record):
			removed = i
		}
	}
	for at := restored; at <= removed; at++ {
		t.Run(out.did[at].String(), func(t *testing.T) {
			r := newFailing()
			r.fault = &fault.World{Crash: true, At: at}
			if out := r.execute(t); !out.crashed {
				t.Fatalf("the run ended with: %v", out.err)
			}
			undo := r.rerun()
			undo.subject = undoReconfigure(second)
			undo.mustSucceed(t)
			left := readChange(t, r.machine)
			if left == nil && latest != "" || left != nil && left.ID != latest {
				t.Errorf("the latest change is %+v", left)
			}
			if diff := diffLines(before, string(r.machine.Files[kubelet].Data)); diff != "" {
				t.Errorf("the kubelet is configured in another way than before:\n%s", diff)
			}
			for file := range r.machine.Files {
				if strings.HasSuffix(file, record) {
					t.Errorf("%s is left", file)
				}
			}
		})
	}
}
