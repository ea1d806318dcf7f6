package laws

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/nodename"
	"kubeadm/internal/pki"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const newName = "rack7"

// administrator is the kubeconfig of an administrator on a worker.
const administrator = "/root/admin.conf"

// newNamedMachine is a control plane node with labels, taints and annotations of an administrator, and a Pod to be evicted.
func newNamedMachine(t testing.TB) *fake.World {
	w := newReconfiguredMachine(t)
	u := w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "Node"}, Name: "cp1"}]
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["disk"], labels["kubernetes.io/hostname"] = "ssd", "cp1"
	u.SetLabels(labels)
	u.SetAnnotations(map[string]string{"example.com/rack": "r7", "kubeadm.kubernetes.io/reconfiguration": "abc",
		"flannel.alpha.coreos.com/public-ip": "192.0.2.10", "node.alpha.kubernetes.io/ttl": "0"})
	if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"key": "dedicated", "value": "db", "effect": "NoSchedule"},
		map[string]any{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}}, "spec", "taints"); err != nil {
		t.Fatal(err)
	}
	for key, pod := range w.Objects {
		if key.Kind.Kind == "Pod" && key.Namespace == "kube-system" {
			pod = pod.DeepCopy()
			annotations := pod.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations["kubernetes.io/config.mirror"] = "x"
			pod.SetAnnotations(annotations)
			w.Objects[key] = pod
		}
	}
	addObjects(t, w, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: {nodeName: cp1}, status: {phase: Running}}`)
	kubelet := w.Services["kubelet"] // which is older than what the run writes, also by a clock that stands still
	kubelet.Since = w.Now().Add(-time.Hour)
	w.Services["kubelet"] = kubelet
	w.Files["/var/lib/kubelet/pki/kubelet.crt"] = memory.File{Data: []byte("cp1"), Mode: 0o644}
	return w
}

// newNamedWorker is a worker of the same name, with the kubeconfig of an administrator.
func newNamedWorker(t testing.TB) *fake.World {
	w := newNamedMachine(t)
	admin := w.Files[adminConf]
	ca := pki.CA{}
	certs, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/ca.crt"].Data)
	if err == nil {
		ca.Certificate = certs[0]
		ca.Key, err = pki.ParseKey(w.Files["/etc/kubernetes/pki/ca.key"].Data)
	}
	if err != nil {
		t.Fatal(err)
	}
	w = newWorkerOf(t, w)
	w.Files[administrator] = admin
	w.SignRequest = func(data []byte) []byte {
		request, err := pki.ParseRequest(data)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := ca.Issue(rand.Reader, pki.ClientSpec(request.Subject.CommonName, request.Subject.Organization,
			pki.NewValidity(w.Now(), 24*time.Hour)), request.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		return pki.EncodeCertificates(cert)
	}
	return w
}

// changeNodeName returns the command that gives a node another name.
func changeNodeName(machine func(testing.TB) *fake.World, to string) subject {
	return subject{name: "node-name change", phases: workflow.ChangeNodeName, node: "cp1", machine: machine,
		restores: true, repeats: true, replacesSome: true,
		setUp: func(t testing.TB, e *engine.Env) error {
			t.Helper()
			here, err := openNamed(t, e)
			if err == nil {
				err = nodename.Recover(t.Context(), e, here)
			}
			if err != nil {
				return err
			}
			w, err := nodename.FindRename(t.Context(), e, here, to)
			if err != nil || w.Done {
				return err
			}
			e.Local, e.Node, e.Intent, e.Admin = w.Node.Local, engine.Resolved(w.Node), w.Rename, engine.As(w.As)
			return nil
		}}
}

func openNamed(t testing.TB, e *engine.Env) (existing.Machine, error) {
	local, err := config.ReconfigureNodeFlags{}.Local()
	if err != nil {
		return existing.Machine{}, err
	}
	e.Local = local
	o := existing.Options{RemoveTemporary: true}
	if _, err := e.World.Stat(t.Context(), administrator); err == nil {
		o.Kubeconfig = administrator
	}
	return existing.Open(t.Context(), e, o)
}

// findRename finds what it means that the node of a machine gets a name.
func findRename(t testing.TB, w *fake.World, to string) (nodename.RenameWanted, error) {
	t.Helper()
	e := engine.New(engine.Env{World: w, Tool: newDefaultTool(t), Emit: func(engine.Event) {}})
	here, err := openNamed(t, e)
	if err == nil {
		err = nodename.Recover(t.Context(), e, here)
	}
	if err != nil {
		t.Fatal(err)
	}
	return nodename.FindRename(t.Context(), e, here, to)
}

// checkRenamed checks that a machine is the node of a name, and that nothing is left of the other one.
func checkRenamed(t *testing.T, w *fake.World, name, other string) {
	t.Helper()
	p := node.DefaultPaths()
	key := func(kind schema.GroupKind, namespace, name string) *unstructured.Unstructured {
		return w.Objects[memory.Key{Kind: kind, Namespace: namespace, Name: name}]
	}
	nodes, leases := schema.GroupKind{Kind: "Node"}, schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}
	if key(nodes, "", other) != nil || key(leases, "kube-node-lease", other) != nil {
		t.Errorf("Node or Lease %s is left", other)
	}
	u := key(nodes, "", name)
	if u == nil {
		t.Fatalf("there is no Node %s", name)
	}
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels["disk"] != "ssd" || labels["kubernetes.io/hostname"] != name || annotations["example.com/rack"] != "r7" ||
		annotations["kubeadm.kubernetes.io/reconfiguration"] != "abc" || annotations[node.RenamedFromAnnotation] != "" {
		t.Errorf("the Node has the labels %v and the annotations %v", labels, annotations)
	}
	if isCordoned, _, _ := unstructured.NestedBool(u.Object, "spec", "unschedulable"); isCordoned {
		t.Error("the Node is cordoned")
	}
	taints, _, _ := unstructured.NestedSlice(u.Object, "spec", "taints")
	if len(taints) == 0 || taints[0].(map[string]any)["key"] != "dedicated" {
		t.Errorf("the Node has the taints %v", taints)
	}
	client, err := localkubelet.ReadClientCert(t.Context(), w, p)
	if err != nil || client.CheckUsable() != nil || client.NodeName(t.Context(), w) != name {
		t.Errorf("the client certificate is for %s: %v", client.NodeName(t.Context(), w), err)
	}
	if k, err := nodename.ReadKubelet(t.Context(), w, node.Local{Hostname: w.Info.Hostname, Paths: p}); err != nil || k.Name != name {
		t.Errorf("the kubelet has its name from %+v: %v", k, err)
	}
	if s := w.Services["kubelet"]; !s.Active || s.Since.Before(w.Files[p.KubeletFlags()].ModTime) {
		t.Error("the kubelet is older than its arguments")
	}
	if _, isLeft := w.Files[p.Journal()+"/renaming.json"]; isLeft {
		t.Error("the record is left")
	}
	if f, isPlane := w.Files[p.Manifest("etcd")]; isPlane {
		if text := string(f.Data); !strings.Contains(text, "--name="+name) || strings.Contains(text, other+"=https") {
			t.Errorf("the manifest of etcd is\n%s", text)
		}
		for _, base := range []string{"apiserver", "etcd/server", "etcd/peer"} {
			certs, err := pki.ParseCertificates(w.Files["/etc/kubernetes/pki/"+base+".crt"].Data)
			if err != nil || certs[0].VerifyHostname(name) != nil || certs[0].VerifyHostname(other) == nil ||
				certs[0].Subject.CommonName == other {
				t.Errorf("%s is for %s %v: %v", base, certs[0].Subject, certs[0].DNSNames, err)
			}
		}
	}
}

// A node gets another name, with what an administrator has set. Wherever that is killed, the same command completes it.
func TestNodeIsRenamed(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"a control plane node": newNamedMachine,
		"a worker": newNamedWorker} {
		t.Run(name, func(t *testing.T) {
			s := changeNodeName(machine, newName)
			r := s.newRun(machine(t))
			r.mustSucceed(t)
			checkRenamed(t, r.machine, newName, "cp1")
			u := r.machine.Objects[memory.Key{Kind: schema.GroupKind{Kind: "Node"}, Name: newName}]
			for _, key := range []string{"flannel.alpha.coreos.com/public-ip", "node.alpha.kubernetes.io/ttl"} {
				if value, isCarried := u.GetAnnotations()[key]; isCarried {
					t.Errorf("the annotation %s=%s is carried over", key, value)
				}
			}
			if _, isPlane := r.machine.Files[adminConf]; isPlane {
				checkRendered(t, r.machine)
			}
			if w, err := findRename(t, r.machine, newName); err != nil || !w.Done {
				t.Errorf("something is left to do: %+v %v", w.Record, err)
			}
			s.killEverywhere(t, func(t *testing.T, r killedRun) {
				if w, err := findRename(t, r.machine, newName); err == nil && !w.Done {
					r.rerun().mustSucceed(t)
				} else if err != nil {
					t.Fatal(err)
				}
				checkRenamed(t, r.machine, newName, "cp1")
			})
		})
	}
}

// A dry run announces what the command does, and changes nothing.
func TestDryRunOfRename(t *testing.T) {
	s := changeNodeName(newNamedMachine, newName)
	checkDryRun(t, s.newRun(s.machine(t)))
	w := newNamedWorker(t) // whose request has another key each time
	before := w.Snapshot()
	changeNodeName(newNamedWorker, newName).newRun(w).asDryRun(t).mustSucceed(t)
	removeDryRunFiles(w)
	if diff := diffLines(before, w.Snapshot()); diff != "" {
		t.Errorf("the dry run changed the machine:\n%s", diff)
	}
}

// Where volumes are bound to the previous name, an administrator may go on all the same.
func TestRenameDespiteVolumes(t *testing.T) {
	w := newNamedMachine(t)
	addObjects(t, w, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [cp1]}]}]}}}}`)
	var warnings []string
	e := engine.New(engine.Env{World: w, Tool: newDefaultTool(t), Emit: func(e engine.Event) {
		if e.Kind == engine.Warned {
			warnings = append(warnings, e.Text)
		}
	}})
	here, err := openReconfigured(t, e, "LocalVolumes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodename.FindRename(t.Context(), e, here, newName); err != nil {
		t.Error(err)
	}
	if text := strings.Join(warnings, "\n"); !strings.Contains(text, "bound to the previous name") || !strings.Contains(text, "data") {
		t.Errorf("it warns of %q", text)
	}
}

// As long as the previous Node exists, a killed change is taken back by the same command with its name. After that it is
// refused, and nothing is changed.
func TestKilledRenameIsTakenBack(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"a control plane node": newNamedMachine,
		"a worker": newNamedWorker} {
		t.Run(name, func(t *testing.T) {
			changeNodeName(machine, newName).killEverywhere(t, func(t *testing.T, r killedRun) {
				isThere := r.machine.Objects[memory.Key{Kind: schema.GroupKind{Kind: "Node"}, Name: "cp1"}] != nil
				w, err := findRename(t, r.machine, "cp1")
				if !isThere {
					if isComplete := w.Original == newName; !isComplete && (err == nil || !strings.Contains(err.Error(), "is deleted already")) {
						t.Errorf("the way back: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				again := r.rerun()
				again.subject = changeNodeName(machine, "cp1")
				if w.Done { // nothing had been recorded
					return
				}
				again.mustSucceed(t)
				checkRenamed(t, again.machine, "cp1", newName)
			})
		})
	}
}

// While a change is not complete, another name is refused, and so is the argument alone.
func TestRenameIsNotMixed(t *testing.T) {
	r := changeNodeName(newNamedMachine, newName).killAt(t, "kubeadm-flags.env")
	if _, err := findRename(t, r.machine, "rack8"); err == nil || !strings.Contains(err.Error(), "from cp1 to rack7 is not complete") {
		t.Errorf("another name: %v", err)
	}
	err := findIn(t, r.machine, func(ctx context.Context, e *engine.Env, here existing.Machine) error {
		_, err := nodename.FindKeep(ctx, e, here)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "is not complete") {
		t.Errorf("the argument alone: %v", err)
	}
}

// What a node cannot be called, and when it cannot get another name.
func TestRenameIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		machine func(testing.TB) *fake.World
		to      string
		change  func(w *fake.World)
		err     string
	}{
		"another Node": {newNamedMachine, "cp2", func(w *fake.World) {
			addObjects(t, w, `{apiVersion: v1, kind: Node, metadata: {name: cp2}}`)
		}, "the cluster has a Node cp2 already"},
		"another member": {newNamedMachine, "cp3", func(w *fake.World) {
			w.MemberList = append(w.MemberList, newMember(2, "cp2", "192.0.2.11"), newMember(3, "cp3", "192.0.2.12"))
		}, "another etcd member has the name cp3"},
		"etcd unhealthy": {newNamedMachine, newName, func(w *fake.World) {
			w.MemberList = append(w.MemberList, newMember(2, "cp2", "192.0.2.11"), newMember(3, "cp3", "192.0.2.12"))
			w.UnreachableMembers = []uint64{3}
		}, "the member of this node cannot restart: etcd would lose its quorum"},
		"a learner": {newNamedMachine, newName, func(w *fake.World) {
			learner := newMember(2, "cp2", "192.0.2.11")
			learner.Learner = true
			w.MemberList = append(w.MemberList, learner)
		}, "etcd member cp2 is a learner"},
		"upper case": {newNamedMachine, "Rack7", nil, `"Rack7" cannot be the name of a Node`},
		"a cloud":    {newNamedMachine, newName, setField(t, "aws:///i-1", "spec", "providerID"), "the cloud provider knows Node cp1"},
		"no Node":    {newNamedMachine, newName, deleteNode, "there is no Node cp1"},
		"no administrator": {newNamedWorker, newName, func(w *fake.World) { delete(w.Files, administrator) },
			"an administrator has to give the node another name"},
		"a local volume": {newNamedWorker, newName, func(w *fake.World) {
			addObjects(t, w, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {claimRef: {namespace: a, name: b},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [cp1]}]}]}}}}`)
		}, "data (of PersistentVolumeClaim a/b)"},
		"a volume by the name of its Node": {newNamedWorker, newName, func(w *fake.World) {
			addObjects(t, w, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {
  nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [cp1]}]}]}}}}`)
		}, "bound to the name cp1"},
		"a volume of a CSI driver": {newNamedWorker, newName, func(w *fake.World) {
			addObjects(t, w, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.lvm.example/node, operator: In, values: [cp1]}]}]}}}}`)
		}, "bound to the name cp1"},
		"a volume of a CSI driver with a value of its own": {newNamedWorker, newName, func(w *fake.World) {
			labels := readNamed(w, "cp1").GetLabels()
			labels["topology.lvm.example/node"] = "rack/CP1"
			readNamed(w, "cp1").SetLabels(labels)
			addObjects(t, w, `{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: cp1}, spec: {drivers: [
  {name: lvm.example, nodeID: x, topologyKeys: [topology.lvm.example/node]}]}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.lvm.example/node, operator: In, values: [rack/CP1]}]}]}}}}`)
		}, "bound to the name cp1"},
		"64 characters": {newNamedMachine, strings.Repeat("a", 64), nil, "cannot be the name of a Node"},
		"a kubelet of another name": {newNamedMachine, newName, func(w *fake.World) { w.Info.Hostname = "renamed" },
			"the kubelet takes the name"},
		"not ready": {newNamedMachine, newName, func(w *fake.World) {
			conditions := []any{map[string]any{"type": "Ready", "status": "False", "message": "no Pod network"}}
			if err := unstructured.SetNestedSlice(readNamed(w, "cp1").Object, conditions, "status", "conditions"); err != nil {
				t.Fatal(err)
			}
		}, "Node cp1 is not ready: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.machine(t)
			if c.change != nil {
				c.change(w)
			}
			before := w.Snapshot()
			if _, err := findRename(t, w, c.to); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if diff := diffLines(before, w.Snapshot()); diff != "" {
				t.Errorf("it has changed something:\n%s", diff)
			}
		})
	}
}

func setField(t *testing.T, value string, fields ...string) func(*fake.World) {
	return func(w *fake.World) {
		u := w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "Node"}, Name: "cp1"}]
		if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
			t.Fatal(err)
		}
	}
}

func deleteNode(w *fake.World) {
	delete(w.Objects, memory.Key{Kind: schema.GroupKind{Kind: "Node"}, Name: "cp1"})
}
