package laws

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// newPreparedMachineOfThree is newMovingMachine with two other control plane nodes.
func newPreparedMachineOfThree(t testing.TB) *fake.World {
	w := newMovingMachine(t)
	w.RemoteAPIServer = true
	w.MemberList = append(slices.Clone(w.MemberList), newMember(2, "cp2", "192.0.2.11"), newMember(3, "cp3", "192.0.2.12"))
	return w
}

// crashAt lets the API server crash with a manifest that has an address, besides what crashes already.
func crashAt(w *fake.World, address string) (repair func()) {
	others := w.CrashLog
	w.CrashLog = func(component string, manifest []byte) string {
		if component == "kube-apiserver" && strings.Contains(string(manifest), address) {
			return "something else is wrong with " + address
		}
		if others != nil {
			return others(component, manifest)
		}
		return ""
	}
	return func() { w.CrashLog = others }
}

func isMemberAt(w *fake.World, address string) bool {
	return slices.ContainsFunc(w.MemberList, func(m state.Member) bool {
		return m.ID == 1 && slices.Contains(m.PeerURLs, "https://"+address+":2380")
	})
}

// A prepared move that fails is taken back whole: the other members of etcd reach this one where it runs.
func TestFailedMoveRestoresPeerURL(t *testing.T) {
	w := newPreparedMachineOfThree(t)
	crashAt(w, newAddress)
	out := changeAddress(newPreparedMachineOfThree, newAddress).newRun(w).execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "the previous static Pods were restored") {
		t.Errorf("got %v", out.err)
	}
	if !isMemberAt(w, presentAddress) {
		t.Errorf("the members are %v", w.MemberList)
	}
}

// A move after the previous address is gone is not taken back: nothing could run there. The same command goes on.
func TestFailedMoveAfterwardsIsNotTakenBack(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"the only one": newMovedMachine,
		"one of three": newMovedMachineOfThree} {
		t.Run(name, func(t *testing.T) {
			w := machine(t)
			repair := crashAt(w, newAddress)
			s := changeAddress(machine, newAddress)
			r := s.newRun(w)
			if err := r.execute(t).err; err == nil || !strings.Contains(err.Error(), "no manifest was restored") {
				t.Errorf("got %v", err)
			}
			for _, component := range []string{"etcd", "kube-apiserver"} {
				if got := string(w.Files["/etc/kubernetes/manifests/"+component+".yaml"].Data); strings.Contains(got, presentAddress) {
					t.Errorf("%s is led back to the address that is gone:\n%s", component, got)
				}
			}
			repair()
			r.rerun().mustSucceed(t)
			checkAddress(t, w, newAddress, presentAddress)
		})
	}
}

// While the machine has its previous address, it may connect from it to other members of etcd.
func TestFinishAddressWaitsUntilAddressIsGone(t *testing.T) {
	w := newPreparedMachineOfThree(t)
	s := changeAddress(newPreparedMachineOfThree, newAddress)
	s.newRun(w).mustSucceed(t)
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := nodeaddress.FindFinish(ctx, e, here)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "this machine still has the address "+presentAddress) {
		t.Errorf("got %v", err)
	}
	w.Interfaces = slices.DeleteFunc(w.Interfaces, func(a state.Address) bool { return a.IP == presentAddress })
	finishAddress(s).newRun(w).mustSucceed(t)
	checkAddress(t, w, newAddress, presentAddress)
}

// Other changes of a node wait until its interrupted move is complete, since manifests have one address.
func TestHalfMovedNodeIsNotReconfigured(t *testing.T) {
	r := changeAddress(newPreparedMachineOfThree, newAddress).killAt(t, "kube-apiserver.yaml")
	args, err := config.ParseKubeletArgs([]string{"max-pods=50"})
	if err != nil {
		t.Fatal(err)
	}
	follow := reconfigureNode(args).newRun(r.machine)
	if err := follow.execute(t).err; err == nil || !strings.Contains(err.Error(), "was interrupted") {
		t.Errorf("got %v", err)
	}
	r.rerun().mustSucceed(t)
	follow.rerun().mustSucceed(t)
}

// newForgottenMachine is a control plane node whose etcd member cannot start at its address, and is not one of the members any more.
func newForgottenMachine(t testing.TB) *fake.World {
	w := newMovedMachineOfThree(t)
	w.MemberList = slices.DeleteFunc(w.MemberList, func(m state.Member) bool { return m.ID == 1 })
	return w
}

// A node whose member etcd has forgotten moves by its files; its member is not added, which "etcd rejoin" does.
func TestForgottenMemberMovesAsFiles(t *testing.T) {
	checkFiles := func(t *testing.T, w *fake.World) {
		t.Helper()
		for name, f := range w.Files {
			isOwn := strings.HasPrefix(name, "/etc/kubernetes/manifests/") || strings.HasSuffix(name, ".conf")
			if isOwn && strings.Contains(string(f.Data), presentAddress) {
				t.Errorf("%s has %s:\n%s", name, presentAddress, f.Data)
			}
		}
		checkRendered(t, w)
		if isMemberAt(w, newAddress) || len(w.MemberList) != 2 {
			t.Errorf("the members are %v", w.MemberList)
		}
	}
	s := changeAddress(newForgottenMachine, newAddress)
	out := s.newRun(s.machine(t)).mustSucceed(t)
	if !slices.ContainsFunc(out.events, func(e engine.Event) bool { return strings.Contains(e.Text, "kubeadm etcd rejoin") }) {
		t.Error("it does not name the command that adds the member again")
	}
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		checkFiles(t, r.machine)
	})
}

// A Node that is not ready for another reason does not keep a move from its end, so that other nodes may be changed again and
// the user learns what to do next. Whether it was so before decides how long it is waited for.
func TestNotReadyNodeMoves(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"prepared": newMovingMachine,
		"the only one, afterwards": newMovedMachine} {
		t.Run(name, func(t *testing.T) {
			ready, w := machine(t), machine(t)
			began := ready.Now()
			changeAddress(machine, newAddress).newRun(ready).mustSucceed(t)
			usual := ready.Now().Sub(began)
			setNotReady(t, w)
			began = w.Now()
			out := changeAddress(machine, newAddress).newRun(w).mustSucceed(t)
			checkAddress(t, w, newAddress, presentAddress)
			if took := w.Now().Sub(began); took >= usual+time.Minute {
				t.Errorf("it has waited %s for a Node that was not ready before", took)
			}
			u := w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}]
			if to, isMoving := u.GetAnnotations()[node.MovingToAnnotation]; isMoving {
				t.Errorf("the Node is still marked as moving to %s", to)
			}
			for _, text := range []string{"but is not ready: no Pod network", "kubeadm address finish"} {
				if !slices.ContainsFunc(out.events, func(e engine.Event) bool { return strings.Contains(e.Text, text) }) {
					t.Errorf("it does not say %q", text)
				}
			}
		})
	}
}

func setNotReady(t testing.TB, w *fake.World) {
	t.Helper()
	u := w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}]
	if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Ready", "status": "False",
		"message": "no Pod network"}}, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
}

// A killed move whose etcd neither works at the new address nor crashes there, as behind a firewall, can be taken back.
func TestKilledMoveToIsolatedAddressIsTakenBack(t *testing.T) {
	s, back := changeAddress(newPreparedMachineOfThree, newAddress), changeAddress(newPreparedMachineOfThree, presentAddress)
	wasIsolated := false
	s.forEachKill(t, func(r killedRun) {
		if !strings.Contains(string(r.machine.Files["/etc/kubernetes/manifests/etcd.yaml"].Data), newAddress) ||
			!strings.Contains(string(r.machine.Files["/etc/kubernetes/manifests/kube-apiserver.yaml"].Data), presentAddress) {
			return
		}
		wasIsolated = true
		r.machine.IsolatedAddress, r.machine.UnreachableMembers = newAddress, []uint64{1}
		again := r.rerun()
		again.subject = back
		again.mustSucceed(t)
		checkAddress(t, again.machine, presentAddress, newAddress)
	})
	if !wasIsolated {
		t.Error("no run was killed while etcd waits for the others")
	}
}

// The endpoint may be the address that this node has lost, while other control plane nodes work.
func TestMoveNamesKubeconfigOfOthers(t *testing.T) {
	w := newMovedMachine(t)
	w.MemberList = append(w.MemberList, newMember(2, "cp2", "192.0.2.11"), newMember(3, "cp3", "192.0.2.12"))
	w.UnreachableMembers = []uint64{1}
	w.SnapshotInfos[memberDir+"/snap/db"] = etcdsnapshot.Info{Members: []string{"cp1", "cp2", "cp3"}}
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := nodeaddress.Find(ctx, e, here, newAddress)
		return err
	})
	if hints := problem.Hints(err); len(hints) == 0 || !strings.Contains(hints[0], "set --kubeconfig to") {
		t.Errorf("%v: %q", err, hints)
	}
}
