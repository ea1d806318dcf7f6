package laws

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// otherMachine is the Node of another machine, which joins under a name while a change is under way.
func otherMachine(name string) string {
	return "{apiVersion: v1, kind: Node, metadata: {name: " + name + ", uid: of-another-machine}}\n---\n" +
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: " + name + ", namespace: kube-node-lease}}"
}

// readNamed returns a Node; nil if there is none.
func readNamed(w *fake.World, name string) *unstructured.Unstructured {
	return w.Objects[memory.Key{Kind: schema.GroupKind{Kind: "Node"}, Name: name}]
}

// checkOtherMachine checks that the Node of another machine, and its Lease, are as before.
func checkOtherMachine(t *testing.T, w *fake.World, name string) {
	t.Helper()
	if u := readNamed(w, name); u == nil || u.GetUID() != "of-another-machine" {
		t.Errorf("the Node of the other machine is %v", u)
	}
	key := memory.Key{Kind: schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, Namespace: "kube-node-lease", Name: name}
	if w.Objects[key] == nil {
		t.Error("the Lease of the other machine is deleted")
	}
}

// A change whose new Node was never created is taken back, after another machine has joined under that name.
func TestWayBackLeavesNodeOfAnother(t *testing.T) {
	for name, machine := range map[string]func(testing.TB) *fake.World{"a control plane node": newNamedMachine,
		"a worker": newNamedWorker} {
		t.Run(name, func(t *testing.T) {
			w := machine(t)
			overwriteFile(w, node.DefaultPaths().Journal()+"/renaming.json", []byte(`{"original": "cp1", "other": "rack7", "to": "rack7"}`))
			addObjects(t, w, otherMachine(newName))
			command := "kubeadm node-name change cp1"
			if _, isPlane := w.Files[adminConf]; !isPlane {
				command += " --kubeconfig ADMIN.CONF"
			}
			if _, err := findRename(t, w, newName); err == nil || !strings.Contains(err.Error(), "has a Node rack7 already") ||
				!slices.Contains(problem.Hints(err), "or take the change back: "+command) {
				t.Errorf("the way forward: %v", err)
			}
			r := changeNodeName(machine, "cp1").newRun(w)
			r.mustSucceed(t)
			checkOtherMachine(t, r.machine, newName)
			if _, isLeft := r.machine.Files[node.DefaultPaths().Journal()+"/renaming.json"]; isLeft || readNamed(r.machine, "cp1") == nil {
				t.Error("the record is left, or the Node is gone")
			}
		})
	}
}

// Of two machines that get the same name at once, the second one gives up, and has changed nothing.
func TestSecondOfOneNameGivesUp(t *testing.T) {
	w := newNamedWorker(t)
	s := changeNodeName(newNamedWorker, newName)
	find := s.setUp
	s.setUp = func(t testing.TB, e *engine.Env) error {
		err := find(t, e)
		addObjects(t, w, otherMachine(newName))
		return err
	}
	r := s.newRun(w)
	out := r.execute(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "has a Node rack7 already") {
		t.Fatalf("the command ended with: %v", out.err)
	}
	if hints := strings.Join(problem.Hints(out.err), "\n"); strings.Contains(hints, "take it back") {
		t.Errorf("it names a way back:\n%s", hints)
	}
	checkOtherMachine(t, w, newName)
	if isCordoned, _, _ := unstructured.NestedBool(readNamed(w, "cp1").Object, "spec", "unschedulable"); isCordoned {
		t.Error("the Node is cordoned")
	}
	if _, isLeft := w.Files[node.DefaultPaths().Journal()+"/renaming.json"]; isLeft {
		t.Error("the record is left")
	}
}

// Another machine joins under the previous name once its Node was deleted: a killed change is completed without that, and not
// taken back.
func TestResumedRenameLeavesNodeOfAnother(t *testing.T) {
	resumed := 0
	changeNodeName(newNamedWorker, newName).forEachKill(t, func(r killedRun) {
		_, isRecorded := r.machine.Files[node.DefaultPaths().Journal()+"/renaming.json"]
		if readNamed(r.machine, "cp1") != nil || !isRecorded {
			return
		}
		resumed++
		addObjects(t, r.machine, otherMachine("cp1"))
		if _, err := findRename(t, r.machine, "cp1"); err == nil || !strings.Contains(err.Error(), "another machine has joined") {
			t.Errorf("the way back: %v", err)
		}
		again := r.rerun()
		again.mustSucceed(t)
		checkOtherMachine(t, again.machine, "cp1")
	})
	if resumed == 0 {
		t.Error("no run was killed after the Node was deleted")
	}
}

// The serving certificate of an administrator stays; what the kubelet has generated is kept in a backup.
func TestServingCertificateOfKubelet(t *testing.T) {
	const file = "/var/lib/kubelet/pki/kubelet.crt"
	for config, isKept := range map[string]bool{"": false, "\ntlsCertFile: " + file + "\n": true} {
		w := newNamedWorker(t)
		p := node.DefaultPaths().KubeletConfig()
		overwriteFile(w, p, append(w.Files[p].Data, config...))
		r := changeNodeName(newNamedWorker, newName).newRun(w)
		r.mustSucceed(t)
		backups := 0
		for name := range w.Files {
			if strings.Contains(name, "/kubeadm-kubelet-config-") && strings.HasSuffix(name, "/kubelet.crt") {
				backups++
			}
		}
		if f, isThere := w.Files[file]; isThere != isKept || isKept && string(f.Data) != "cp1" || (backups == 1) == isKept {
			t.Errorf("with %q: the file is there: %v, and has %d backups", config, isThere, backups)
		}
	}
}

// A member to which an administrator has given another name keeps it.
func TestOwnNameOfMemberIsKept(t *testing.T) {
	w := newNamedMachine(t)
	file := node.DefaultPaths().Manifest("etcd")
	text := strings.NewReplacer("--name=cp1", "--name=etcd-a", "cp1=https", "etcd-a=https").Replace(string(w.Files[file].Data))
	overwriteFile(w, file, []byte(text))
	for i := range w.MemberList {
		w.MemberList[i].Name = "etcd-a"
	}
	changeNodeName(newNamedMachine, newName).newRun(w).mustSucceed(t)
	if now := string(w.Files[file].Data); now != text {
		t.Errorf("the manifest of etcd is\n%s", now)
	}
}

// A kubelet that has its name from the unit is told to move the argument, not to change the name there.
func TestNameInUnitIsMoved(t *testing.T) {
	w := newNamedMachine(t)
	if err := w.PutFile("/etc/systemd/system/kubelet.service.d/20-name.conf", memory.File{Mode: 0o644,
		Data: []byte("[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--hostname-override=cp1\"\n")}); err != nil {
		t.Fatal(err)
	}
	_, err := findRename(t, w, newName)
	if hints := strings.Join(problem.Hints(err), "\n"); err == nil || !strings.Contains(hints, "present value: --hostname-override=cp1") {
		t.Errorf("got %v\n%s", err, hints)
	}
}

// A client certificate of the previous name is not left: it would be valid until it expires.
func TestPreviousClientCertIsRemoved(t *testing.T) {
	const dir = "/var/lib/kubelet/pki/"
	w := newNamedWorker(t)
	w.Files[dir+"kubelet-client-2020-01-02-03-04-05.pem"] = w.Files[dir+"kubelet-client-current.pem"]
	changeNodeName(newNamedWorker, newName).newRun(w).mustSucceed(t)
	for name := range w.Files {
		if !strings.HasPrefix(name, dir+"kubelet-client-") {
			continue
		}
		certs, err := pki.ParseCertificates(w.Files[name].Data)
		if err == nil && certs[0].Subject.CommonName != "system:node:"+newName {
			t.Errorf("%s is left, for %s", name, certs[0].Subject)
		}
	}
}
