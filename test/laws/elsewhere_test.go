package laws

import (
	"maps"
	"strings"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// elsewhere are commands on machines that have no key of any authority.
func elsewhere() []subject {
	return []subject{
		{name: "init without the keys of authorities", phases: workflow.Init, machine: supplied, equip: equipSupplied, node: "cp1", kubelets: []string{rotated}},
		{name: "join a control plane without the keys of authorities", phases: workflow.Join, machine: suppliedPlane, equip: equipSuppliedPlane, node: "cp2",
			kubelets: []string{rotated, "/etc/kubernetes/kubelet.conf", "/var/lib/etcd/member"}},
	}
}

// supplied is a fresh machine to which somebody has brought all that init makes with the keys of authorities.
func supplied(t testing.TB) *fake.World {
	w := first(t)
	for _, phase := range []string{"certs", "kubeconfig"} {
		r := subjects()[0].on(w)
		r.sel = flow.Selection{Only: phase}
		r.succeed(t)
	}
	withoutKeys(w)
	return w
}

// suppliedPlane is the same for one more control plane.
func suppliedPlane(t testing.TB) *fake.World {
	s := subjects()[2]
	joined, w := s.machine(t), s.machine(t)
	s.on(joined).succeed(t)
	for path, file := range joined.Files {
		own := strings.HasPrefix(path, "/etc/kubernetes/pki") || strings.HasSuffix(path, ".conf") && path != "/etc/kubernetes/kubelet.conf"
		if own && strings.HasPrefix(path, "/etc/kubernetes/") {
			w.Files[path] = file
		}
	}
	withoutKeys(w)
	return w
}

func withoutKeys(w *fake.World) {
	maps.DeleteFunc(w.Files, func(path string, _ memory.File) bool { return strings.HasSuffix(path, "ca.key") })
}

func equipSupplied(t testing.TB, e *flow.Env) error {
	return equipFirst(t, e, config.NewInitFlags(), initConfig)
}

func equipSuppliedPlane(t testing.TB, e *flow.Env) error {
	flags := config.NewJoinFlags()
	flags.ControlPlane = true
	err := equipJoining(t, e, flags)
	e.Admin = workflow.JoinAdmin(e.World, e.Local)
	return err
}

// What is missing is told before anything is changed, all of it at once.
func TestWhatAuthoritiesMustSupplyIsNamed(t *testing.T) {
	for _, s := range elsewhere() {
		lost := []string{"pki/apiserver.crt", "pki/apiserver-kubelet-client.key", "pki/front-proxy-client.crt", "pki/etcd/peer.key", "admin.conf", "scheduler.conf", "pki/sa.pub"}
		w := s.machine(t)
		for _, file := range lost {
			delete(w.Files, "/etc/kubernetes/"+file)
		}
		before := w.Snapshot()
		out := s.on(w).do(t)
		if len(out.did) > 0 || w.Snapshot() != before {
			t.Errorf("%s: did %v", s.name, of(out.did))
		}
		if out.err == nil {
			t.Fatalf("%s: nothing is missed", s.name)
		}
		for _, file := range lost {
			if file == "admin.conf" && s.node != "cp1" { // by it the cluster is found, else by the token
				continue
			}
			if !strings.Contains(out.err.Error(), "/etc/kubernetes/"+file+" does not exist") {
				t.Errorf("%s: %s is not missed: %v", s.name, file, out.err)
			}
		}
	}
}

// A certificate of another machine, copied along with the shared ones, is not good enough for a control plane that joins.
func TestAnotherMachinesCertificateIsRefused(t *testing.T) {
	w := suppliedPlane(t)
	for _, file := range []string{"ca.key", "apiserver.crt", "apiserver.key"} {
		w.Files["/etc/kubernetes/pki/"+file] = begun(t).Files["/etc/kubernetes/pki/"+file]
	}
	out := elsewhere()[1].on(w).do(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "/etc/kubernetes/pki/apiserver.crt: it is not valid for cp2, 192.0.2.30") {
		t.Errorf("got %v", out.err)
	}
	delete(w.Files, "/etc/kubernetes/pki/apiserver.key")
	out = elsewhere()[1].on(w).do(t)
	if out.err == nil || !strings.Contains(out.err.Error(), "/etc/kubernetes/pki/apiserver.crt: the private key file does not exist") {
		t.Errorf("without a key: %v", out.err)
	}
}
