package laws

import (
	"strings"
	"sync"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// newRootlessMachine is a fresh machine with /etc/passwd and /etc/group.
func newRootlessMachine(testing.TB) *fake.World {
	w := fake.New()
	w.Files["/etc/passwd"] = memory.File{Data: []byte("root:x:0:0:root:/root:/bin/bash\n"),
		Mode: 0o644}
	w.Files["/etc/group"] = memory.File{Data: []byte("root:x:0:\n"), Mode: 0o644}
	return w
}

// usedRootlessControlPlane is such a machine after init as a rootless control plane, in use.
func usedRootlessControlPlane(t testing.TB) *fake.World {
	sharedRootless.Do(func() {
		s := findSubject("init")
		s.machine, s.setUp = newRootlessMachine, setUpRootlessInit
		sharedRootless.machine = s.machine(t)
		s.newRun(sharedRootless.machine).mustSucceed(t)
		addWorkload(sharedRootless.machine)
	})
	return sharedRootless.machine.Clone()
}

// sharedRootless is created once for all tests.
var sharedRootless struct {
	sync.Once
	machine *fake.World
}

func setUpRootlessInit(t testing.TB, e *engine.Env) error {
	text := strings.Replace(initConfig, "networking:",
		"featureGates:\n  RootlessControlPlane: true\nnetworking:", 1)
	return setUpInitWith(t, e, config.NewInitFlags(), text)
}

// Only root and the component that needs it can read a key, and reset removes all accounts.
func TestRootlessFileOwners(t *testing.T) {
	w := usedRootlessControlPlane(t)
	passwd := string(w.Files["/etc/passwd"].Data)
	uids := make(map[string]int)
	for _, name := range []string{"kubeadm-etcd", "kubeadm-kas", "kubeadm-kcm", "kubeadm-ks"} {
		if !strings.Contains(passwd, "\n"+name+":x:10") {
			t.Errorf("there is no system user %s:\n%s", name, passwd)
		}
		uids[name] = 100 + len(uids)
	}
	for file, owner := range map[string]string{
		"pki/etcd/server.key": "kubeadm-etcd", "pki/etcd/peer.key": "kubeadm-etcd",
		"pki/apiserver.key":                "kubeadm-kas",
		"pki/apiserver-kubelet-client.key": "kubeadm-kas",
		"pki/front-proxy-client.key":       "kubeadm-kas", "pki/sa.pub": "kubeadm-kas",
		"pki/apiserver-etcd-client.key": "kubeadm-kas", "pki/ca.key": "kubeadm-kcm",
		"controller-manager.conf": "kubeadm-kcm",
		"scheduler.conf":          "kubeadm-ks", "admin.conf": "", "pki/front-proxy-ca.key": "",
		"pki/etcd/ca.key": "",
	} {
		f := w.Files["/etc/kubernetes/"+file]
		if f.UID != uids[owner] || f.Mode.Perm() != 0o600 {
			t.Errorf("%s has the owner %d and mode %v, want %d (%s)", file, f.UID, f.Mode,
				uids[owner], owner)
		}
	}
	if f := w.Files["/etc/kubernetes/pki/sa.key"]; f.UID != 0 || f.GID != 104 || f.Mode != 0o640 {
		t.Errorf("sa.key has the owner %d:%d and mode %v", f.UID, f.GID, f.Mode)
	}
	s := findSubject("reset a control plane")
	s.newRun(w).mustSucceed(t)
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		if text := string(w.Files[file].Data); strings.Contains(text, "kubeadm-") {
			t.Errorf("after the reset %s has:\n%s", file, text)
		}
	}
}
