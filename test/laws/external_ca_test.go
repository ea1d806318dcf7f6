package laws

import (
	"maps"
	"strings"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// externalCASubjects are commands on machines without CA keys.
func externalCASubjects() []subject {
	return []subject{
		{name: "init with an external CA", phases: workflow.Init, machine: newExternalCAMachine,
			setUp: setUpExternalCAInit, node: "cp1", kubelets: []string{rotatedCertificate}},
		{name: "join a control plane with an external CA", phases: workflow.Join,
			machine: newExternalCAControlPlaneMachine, setUp: setUpExternalCAJoin, node: "cp2",
			kubelets: []string{rotatedCertificate, "/etc/kubernetes/kubelet.conf",
				"/var/lib/etcd/member"}},
	}
}

// newExternalCAMachine is a fresh machine with all certificates that init would sign with the CA
// keys.
func newExternalCAMachine(t testing.TB) *fake.World {
	w := newInitMachine(t)
	for _, phase := range []string{"certs", "kubeconfig"} {
		r := findSubject("init").newRun(w)
		r.sel = engine.Selection{Only: phase}
		r.mustSucceed(t)
	}
	removeCAKeys(w)
	return w
}

// newExternalCAControlPlaneMachine is the same for a further control plane.
func newExternalCAControlPlaneMachine(t testing.TB) *fake.World {
	s := findSubject("join a control plane")
	joined, w := s.machine(t), s.machine(t)
	s.newRun(joined).mustSucceed(t)
	for path, file := range joined.Files {
		own := strings.HasPrefix(path, "/etc/kubernetes/pki") || strings.HasSuffix(path, ".conf") &&
			path != "/etc/kubernetes/kubelet.conf"
		if own && strings.HasPrefix(path, "/etc/kubernetes/") {
			w.Files[path] = file
		}
	}
	removeCAKeys(w)
	return w
}

func removeCAKeys(w *fake.World) {
	maps.DeleteFunc(w.Files,
		func(path string, _ memory.File) bool { return strings.HasSuffix(path, "ca.key") })
}

func setUpExternalCAInit(t testing.TB, e *engine.Env) error {
	return setUpInitWith(t, e, config.NewInitFlags(), initConfig)
}

func setUpExternalCAJoin(t testing.TB, e *engine.Env) error {
	flags := config.NewJoinFlags()
	flags.ControlPlane = true
	err := setUpJoinWith(t, e, flags)
	e.Admin = workflow.JoinAdmin(e.World, e.Local)
	return err
}

// All missing files are named in one error, before anything is changed.
func TestMissingExternalCAFilesAreNamed(t *testing.T) {
	for _, s := range externalCASubjects() {
		lost := []string{"pki/apiserver.crt", "pki/apiserver-kubelet-client.key",
			"pki/front-proxy-client.crt", "pki/etcd/peer.key", "admin.conf", "scheduler.conf",
			"pki/sa.pub"}
		w := s.machine(t)
		for _, file := range lost {
			delete(w.Files, "/etc/kubernetes/"+file)
		}
		before := w.Snapshot()
		out := s.newRun(w).execute(t)
		if len(out.did) > 0 || w.Snapshot() != before {
			t.Errorf("%s: did %v", s.name, describeChanges(out.did))
		}
		if out.err == nil {
			t.Fatalf("%s: no file is reported as missing", s.name)
		}
		for _, file := range lost {
			// join finds the cluster by it, else by the token
			if file == "admin.conf" && s.node != "cp1" {
				continue
			}
			if !strings.Contains(out.err.Error(), "/etc/kubernetes/"+file+" does not exist") {
				t.Errorf("%s: %s is not reported as missing: %v", s.name, file, out.err)
			}
		}
	}
}

// A certificate of another machine, copied along with the shared ones, is refused.
func TestAnotherMachinesCertificateIsRefused(t *testing.T) {
	w := newExternalCAControlPlaneMachine(t)
	for _, file := range []string{"ca.key", "apiserver.crt", "apiserver.key"} {
		w.Files["/etc/kubernetes/pki/"+file] = initializedMachine(t).Files["/etc/kubernetes/pki/"+
			file]
	}
	out := findSubject("join a control plane with an external CA").newRun(w).execute(t)
	if out.err == nil ||
		!strings.Contains(out.err.Error(),
			"/etc/kubernetes/pki/apiserver.crt: it is not valid for cp2, 192.0.2.30") {
		t.Errorf("got %v", out.err)
	}
	delete(w.Files, "/etc/kubernetes/pki/apiserver.key")
	out = findSubject("join a control plane with an external CA").newRun(w).execute(t)
	if out.err == nil ||
		!strings.Contains(out.err.Error(),
			"/etc/kubernetes/pki/apiserver.crt: the private key file does not exist") {
		t.Errorf("without a key: %v", out.err)
	}
}
