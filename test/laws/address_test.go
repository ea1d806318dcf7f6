package laws

import (
	"context"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/pki"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const presentAddress, newAddress = "192.0.2.10", "192.0.2.20"

// newMovingMachine is a control plane node that has its new address beside the present one.
func newMovingMachine(t testing.TB) *fake.World {
	w := newReconfiguredMachine(t)
	w.Interfaces = append(slices.Clone(w.Interfaces), state.Address{IP: newAddress, Bits: 24, Interface: "eth0"})
	setNodeAddress(t, w, "cp1", presentAddress)
	kubelet := w.Services["kubelet"] // which is older than what the run writes, also by a clock that stands still
	kubelet.Since = w.Now().Add(-time.Hour)
	w.Services["kubelet"] = kubelet
	return w
}

func setNodeAddress(t testing.TB, w *fake.World, name, address string) {
	t.Helper()
	u := w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: name}]
	if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "InternalIP", "address": address}},
		"status", "addresses"); err != nil {
		t.Fatal(err)
	}
}

// newMovedMachine is the only control plane node of a cluster, and has only its new address: what listens at the
// present one does not start.
func newMovedMachine(t testing.TB) *fake.World {
	w := newMovingMachine(t)
	w.Interfaces = []state.Address{{IP: newAddress, Bits: 24, Interface: "eth0", DefaultRoute: true}}
	w.CrashLog = func(component string, manifest []byte) string {
		if component == "etcd" && strings.Contains(string(manifest), "//"+presentAddress+":") {
			return "listen tcp " + presentAddress + ":2380: bind: cannot assign requested address"
		}
		return ""
	}
	w.Files[memberDir+"/snap/db"] = memory.File{Data: []byte("data"), Mode: 0o600}
	w.SnapshotInfos = map[string]etcdsnapshot.Info{memberDir + "/snap/db": {Members: []string{"cp1"}}}
	return w
}

// newMovedMachineOfThree is newMovedMachine with two other control plane nodes, which work.
func newMovedMachineOfThree(t testing.TB) *fake.World {
	w := newMovedMachine(t)
	w.RemoteAPIServer = true
	w.MemberList = append(slices.Clone(w.MemberList), newMember(2, "cp2", "192.0.2.11"), newMember(3, "cp3", "192.0.2.12"))
	return w
}

// changeAddress returns the command that brings a node to another address.
func changeAddress(machine func(testing.TB) *fake.World, to string) subject {
	return subject{name: "address change", phases: workflow.ChangeAddress, node: "cp1", machine: machine,
		restores: true, repeats: true, replacesSome: true,
		setUp: func(t testing.TB, e *engine.Env) error { return setUpAddress(t, e, to) }}
}

func setUpAddress(t testing.TB, e *engine.Env, to string) error {
	t.Helper()
	here, err := openAddressFor(t, e, to)
	if err != nil {
		return err
	}
	w, err := nodeaddress.Find(t.Context(), e, here, to)
	if err != nil {
		return err
	}
	e.Local, e.Node, e.Intent, e.Admin = w.Node.Local, engine.Resolved(w.Node), w.Intent, engine.As(w.As)
	return nil
}

func openAddress(t testing.TB, e *engine.Env) (existing.Machine, error) {
	return openAddressFor(t, e, "")
}

func openAddressFor(t testing.TB, e *engine.Env, to string) (existing.Machine, error) {
	local, err := config.ReconfigureNodeFlags{}.Local()
	if err != nil {
		return existing.Machine{}, err
	}
	e.Local = local
	here, err := existing.Open(t.Context(), e, existing.Options{RemoveTemporary: true})
	if err == nil && here.Role == node.ControlPlane {
		err = reconfiguration.RecoverMove(t.Context(), e, here, to)
	}
	return here, err
}

func finishAddress(s subject) subject {
	s.phases = workflow.FinishAddress
	s.setUp = func(t testing.TB, e *engine.Env) error {
		here, err := openAddress(t, e)
		if err != nil {
			return err
		}
		w, err := nodeaddress.FindFinish(t.Context(), e, here)
		if err != nil {
			return err
		}
		e.Local, e.Node, e.Intent, e.Admin = w.Node.Local, engine.Resolved(w.Node), w.Intent, engine.As(w.As)
		return nil
	}
	return s
}

// checkAddress checks that everything of a control plane node has an address, and that its static Pods are those that
// an upgrade would write.
func checkAddress(t *testing.T, w *fake.World, address, other string) {
	t.Helper()
	for name, f := range w.Files {
		isOwn := strings.HasPrefix(name, "/etc/kubernetes/manifests/") || strings.HasSuffix(name, ".conf") ||
			name == "/var/lib/kubelet/kubeadm-flags.env"
		if isOwn && f.Mode&fs.ModeDir == 0 && strings.Contains(string(f.Data), other) {
			t.Errorf("%s has %s:\n%s", name, other, f.Data)
		}
	}
	u := w.Objects[memory.Key{Kind: state.NodeKind.GroupKind(), Name: "cp1"}]
	if got, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses"); len(got) != 1 ||
		got[0].(map[string]any)["address"] != address {
		t.Errorf("the Node has the addresses %v", got)
	}
	all, err := w.Members(t.Context(), state.Etcd{})
	if err != nil || !slices.ContainsFunc(all, func(m state.Member) bool {
		return m.ID == 1 && slices.Contains(m.PeerURLs, "https://"+address+":2380")
	}) {
		t.Errorf("the members are %v: %v", all, err)
	}
	e := engine.New(engine.Env{World: w, Tool: newDefaultTool(t), Emit: func(engine.Event) {}})
	here, err := openAddress(t, e)
	if err != nil {
		t.Fatal(err)
	}
	if here.Address != address {
		t.Errorf("the address of the node is %s", here.Address)
	}
	for _, base := range []string{"apiserver", "etcd/server", "etcd/peer"} {
		certs, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/"+base+".crt"].Data)
		if err != nil || certs[0].VerifyHostname(address) != nil {
			t.Errorf("%s is not valid for %s: %v", base, address, err)
		}
	}
}

// checkRendered checks that the static Pods are those that an upgrade would write.
func checkRendered(t *testing.T, w *fake.World) {
	t.Helper()
	err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		n, _, err := existing.ReadNode(ctx, w, here.As, here.Local, release.Target{})
		if err != nil {
			return err
		}
		for _, component := range staticpod.Components(n) {
			rendered, err := staticpod.RenderPresent(ctx, e, n, component)
			if err != nil {
				return err
			}
			same, err := staticpod.EqualButForProxy(rendered.Data, w.Files[n.Paths.Manifest(component)].Data)
			if err != nil {
				return err
			}
			if !same {
				t.Errorf("%s is not as an upgrade would write it:\n%s", component,
					diffLines(string(rendered.Data), string(w.Files[n.Paths.Manifest(component)].Data)))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A control plane node moves, prepared or afterwards, alone or as one of three. The same command again changes
// nothing, and the certificates are valid for both addresses until the move is finished.
func TestChangeAddress(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"prepared": newMovingMachine,
		"the only one, afterwards": newMovedMachine, "one of three, afterwards": newMovedMachineOfThree} {
		t.Run(name, func(t *testing.T) {
			s := changeAddress(machine, newAddress)
			r := s.newRun(machine(t))
			r.mustSucceed(t)
			checkAddress(t, r.machine, newAddress, presentAddress)
			checkRendered(t, r.machine)
			if !hasName(t, r.machine, presentAddress) {
				t.Error("the certificate of the API server is not valid for the previous address")
			}
			if again := s.newRun(r.machine).mustSucceed(t).did; len(again) > 3 {
				t.Errorf("the same command changes %v", describeChanges(again))
			}
		})
	}
}

// A unit in which the user has corrected the address restarts the kubelet, which was started with the previous one.
func TestCorrectedUnitRestartsKubelet(t *testing.T) {
	const dropIn = "/etc/systemd/system/kubelet.service.d/20-address.conf"
	w := newMovingMachine(t)
	s := changeAddress(newMovingMachine, newAddress)
	s.newRun(w).mustSucceed(t)
	restarts := func() bool {
		return slices.ContainsFunc(s.newRun(w).mustSucceed(t).did,
			func(c change.Change) bool { return c.Target() == "service:kubelet" })
	}
	if restarts() {
		t.Error("the same command restarts the kubelet")
	}
	text := "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--node-ip=" + newAddress + "\"\n"
	if err := w.PutFile(dropIn, memory.File{Data: []byte(text), Mode: 0o644, ModTime: w.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if !restarts() {
		t.Error("the kubelet still runs with the previous unit")
	}
}

// As long as the machine has both addresses, the way back is the same command.
func TestAddressIsTakenBack(t *testing.T) {
	w := newMovingMachine(t)
	changeAddress(newMovingMachine, newAddress).newRun(w).mustSucceed(t)
	changeAddress(newMovingMachine, presentAddress).newRun(w).mustSucceed(t)
	checkAddress(t, w, presentAddress, newAddress)
	finishAddress(changeAddress(newMovingMachine, presentAddress)).newRun(w).mustSucceed(t)
	if hasName(t, w, newAddress) || !hasName(t, w, presentAddress) {
		t.Error("the certificate has the wrong address")
	}
}

// A move is finished once nothing leads to the previous address.
func TestFinishAddress(t *testing.T) {
	w := newMovingMachine(t)
	s := changeAddress(newMovingMachine, newAddress)
	s.newRun(w).mustSucceed(t)
	finishAddress(s).newRun(w).mustSucceed(t)
	checkAddress(t, w, newAddress, presentAddress)
	for _, base := range []string{"apiserver", "etcd/server", "etcd/peer"} {
		certs, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/"+base+".crt"].Data)
		if err != nil || slices.ContainsFunc(certs[0].IPAddresses, net.ParseIP(presentAddress).Equal) {
			t.Errorf("%s: %v %v", base, certs[0].IPAddresses, err)
		}
	}
	bare := newBareMachine(t)
	bare.Interfaces = newMovingMachine(t).Interfaces
	setNodeAddress(t, bare, "cp1", presentAddress)
	s.newRun(bare).mustSucceed(t)
	if err := finishAddress(s).newRun(bare).execute(t).err; err == nil ||
		!strings.Contains(err.Error(), "nodes and users still reach the cluster at "+bareURL) {
		t.Errorf("finishing a move from the address at which nodes reach the cluster: %v", err)
	}
}

// Wherever a move is killed that began after the previous address was gone, the same command completes it.
func TestMoveAfterwardsResumesAtEveryCrashPoint(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"the only one": newMovedMachine,
		"one of three": newMovedMachineOfThree} {
		t.Run(name, func(t *testing.T) {
			changeAddress(machine, newAddress).killEverywhere(t, func(t *testing.T, r killedRun) {
				r.rerun().mustSucceed(t)
				checkAddress(t, r.machine, newAddress, presentAddress)
			})
		})
	}
}

// Wherever a move is killed, it can be taken back, and does not count as complete: the certificates keep the address
// that is in use.
func TestKilledMoveIsTakenBack(t *testing.T) {
	s, back := changeAddress(newMovingMachine, newAddress), changeAddress(newMovingMachine, presentAddress)
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		e := engine.New(engine.Env{World: r.machine, Tool: newDefaultTool(t), Emit: func(engine.Event) {}})
		here, err := openAddress(t, e)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := nodeaddress.FindFinish(t.Context(), e, here); err == nil && w.IsFrom(here.Address) {
			t.Errorf("the address in use, %s, is a previous one: %v", here.Address, w.From)
		}
		again := r.rerun()
		again.subject = back
		again.mustSucceed(t)
		checkAddress(t, again.machine, presentAddress, newAddress)
	})
}

// What cannot be the address of a node, and when none can move.
func TestAddressIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		machine func(testing.TB) *fake.World
		to      string
		change  func(w *fake.World)
		err     string
	}{
		"another node": {newMovingMachine, newAddress, func(w *fake.World) {
			addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: cp2},
  status: {addresses: [{type: InternalIP, address: 192.0.2.20}]}}`)
		}, "192.0.2.20 is the address of node cp2"},
		"a lost member": {newMovedMachineOfThree, newAddress, func(w *fake.World) {
			w.MemberList = append([]state.Member{newMember(4, "cp4", newAddress)}, w.MemberList...)
			w.UnreachableMembers = []uint64{4}
		}, "192.0.2.20 is the address of etcd member cp4"},
		"the kubelet's configuration": {newMovingMachine, newAddress, func(w *fake.World) {
			f := w.Files["/var/lib/kubelet/config.yaml"]
			f.Data = append(slices.Clone(f.Data), "\naddress: "+presentAddress+"\n"...)
			w.Files["/var/lib/kubelet/config.yaml"] = f
		}, "has address: 192.0.2.10, which is the previous address"},
		"another member": {newMovedMachineOfThree, "192.0.2.12", nil, "192.0.2.12 is the address of etcd member cp3"},
		"Services":       {newMovingMachine, "10.96.0.7", nil, "10.96.0.7 is in the range of Services, 10.96.0.0/12"},
		"another family": {newMovingMachine, "2001:db8::7", nil, "2001:db8::7 is of another IP family"},
		"two of three unhealthy": {newMovedMachineOfThree, newAddress,
			func(w *fake.World) { w.UnreachableMembers = []uint64{1, 3} }, "quorum"},
		"another one unhealthy": {newMovedMachineOfThree, newAddress, func(w *fake.World) {
			w.CrashLog, w.UnreachableMembers = nil, []uint64{3}
			w.Interfaces = newMovingMachine(t).Interfaces
		}, "this node cannot move: etcd would lose its quorum while the member of this node restarts; unhealthy members: 1 of 3 (cp3)"},
		"two of four healthy while it restarts": {newMovedMachineOfThree, newAddress, func(w *fake.World) {
			w.CrashLog, w.UnreachableMembers = nil, []uint64{3}
			w.MemberList = append(w.MemberList, newMember(4, "cp4", "192.0.2.14"))
			w.Interfaces = newMovingMachine(t).Interfaces
		}, "this node cannot move: etcd would lose its quorum while the member of this node restarts; unhealthy members: 1 of 4 (cp3)"},
		"a learner": {newMovedMachineOfThree, newAddress, func(w *fake.World) { w.MemberList[2].Learner = true },
			"etcd member cp3 is a learner"},
		"all at once": {newMovedMachine, newAddress, func(w *fake.World) {
			w.MemberList = append(w.MemberList, newMember(2, "cp2", "192.0.2.11"), newMember(3, "cp3", "192.0.2.12"))
			w.UnreachableMembers = []uint64{1, 2, 3}
			w.SnapshotInfos[memberDir+"/snap/db"] = etcdsnapshot.Info{Members: []string{"cp1", "cp2", "cp3"}}
		}, "no API server answers, and etcd has 3 members"},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.machine(t)
			if c.change != nil {
				c.change(w)
			}
			before := w.Snapshot()
			err := findIn(t, w, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
				_, err := nodeaddress.Find(ctx, e, here, c.to)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if diff := diffLines(before, w.Snapshot()); diff != "" {
				t.Errorf("it has changed something:\n%s", diff)
			}
		})
	}
}
