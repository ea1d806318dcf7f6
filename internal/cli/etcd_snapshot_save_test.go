package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/memory"
)

// newEtcdNode is a control plane node with one member and some snapshots of other origin.
func newEtcdNode(t *testing.T) *testMachine {
	t.Helper()
	m := newDefaultMachine()
	if err := m.run(t.Context(), "init", "--skip-phases=kubelet-finalize", "--node-name=cp1"); err != nil {
		t.Fatal(err)
	}
	m.world.MemberList = []state.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"},
		ClientURLs: []string{"https://192.0.2.10:2379"}}}
	for _, name := range []string{"mine.db", "etcd-00000000-cp1-20200101T000000Z.db"} {
		m.world.Files["/var/lib/kubeadm/etcd-snapshots/"+name] = memory.File{Data: []byte("x"), Mode: 0o600}
	}
	return m
}

// snapshots are the names of the files in the default directory.
func (s *testMachine) snapshots() (names []string) {
	for _, path := range slices.Sorted(maps.Keys(s.world.Files)) {
		if name, ok := strings.CutPrefix(path, "/var/lib/kubeadm/etcd-snapshots/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// crashes runs a command that is killed at a change, or to its end, and reports which it was.
func (s *testMachine) crashes(t *testing.T, at *fault.World, args ...string) (crashed bool) {
	t.Helper()
	at.World, at.Crash = s.world, true
	s.Host.World = func() world.World { return at }
	defer func() {
		s.Host.World = func() world.World { return s.world }
		if found := recover(); found != nil {
			if crashed = found == (fault.Crash{}); !crashed {
				panic(found)
			}
		}
	}()
	if err := s.run(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	return false
}

// Wherever a save is killed, the next one keeps as many complete files as it should and removes no others,
// also if the clock was set back in between.
func TestSaveIsKilledAtEveryChange(t *testing.T) {
	for name, flags := range map[string][]string{"snapshot": nil, "with keys": {"--with-keys", "--unencrypted"}} {
		args := append([]string{"etcd", "snapshot", "save", "--keep=2"}, flags...)
		m := newEtcdNode(t)
		for range 2 {
			if err := m.run(t.Context(), args...); err != nil {
				t.Fatal(err)
			}
		}
		for n, crashed := 0, true; crashed; n++ {
			for _, after := range []bool{false, true} {
				crashed = m.crashes(t, &fault.World{At: n, After: after}, args...)
				m.world.Clock = memory.NewTickingClock(m.world.Now().Add(-time.Hour))
				if err := m.run(t.Context(), args...); err != nil {
					t.Fatal(err)
				}
				left := m.snapshots()
				if len(left) != 4 || !slices.Contains(left, "mine.db") || left[0] != "etcd-00000000-cp1-20200101T000000Z.db" {
					t.Errorf("%s: killed at change %d: left are %v", name, n, left)
				}
				for _, file := range left[1:3] {
					if err := m.run(t.Context(), "etcd", "snapshot", "status", "/var/lib/kubeadm/etcd-snapshots/"+file); err != nil {
						t.Errorf("%s: killed at change %d: %v", name, n, err)
					}
				}
			}
			if n == 0 && !crashed {
				t.Fatal("the run made no change")
			}
		}
	}
}

// A file from the future is replaced: no clock says whether there is something to do.
func TestSaveReplacesFileFromFuture(t *testing.T) {
	m := newEtcdNode(t)
	for _, args := range [][]string{{"/backup/a.db"}, {"/backup/a.tar", "--with-keys", "--unencrypted"}} {
		save := append([]string{"etcd", "snapshot", "save"}, args...)
		if err := m.run(t.Context(), save...); err != nil {
			t.Fatal(err)
		}
		old := m.world.Files[args[0]]
		old.ModTime = m.world.Now().Add(time.Hour)
		m.world.Files[args[0]] = old
		m.world.MemberList[0].Name += "x" // the data differ
		if err := m.run(t.Context(), save...); err != nil {
			t.Fatal(err)
		}
		if string(m.world.Files[args[0]].Data) == string(old.Data) {
			t.Errorf("%s was not replaced", args[0])
		}
	}
}

// The API server may see its files at other paths. A missing one is an error, because no cluster could be
// rebuilt without it.
func TestSaveWithEncryptionFile(t *testing.T) {
	m := newEtcdNode(t)
	const manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	f := m.world.Files[manifest]
	text := strings.Replace(string(f.Data), "    - kube-apiserver\n",
		"    - kube-apiserver\n    - --encryption-provider-config=/enc/enc.yaml\n", 1)
	text = strings.Replace(text, "    volumeMounts:\n", "    volumeMounts:\n    - mountPath: /enc\n      name: enc\n", 1)
	text = strings.Replace(text, "  volumes:\n", "  volumes:\n  - hostPath:\n      path: /secure\n    name: enc\n", 1)
	f.Data = []byte(text)
	m.world.Files[manifest] = f
	m.world.Files["/enc/enc.yaml"] = memory.File{Data: []byte("of another program"), Mode: 0o600}
	save := []string{"etcd", "snapshot", "save", "--with-keys", "--unencrypted", "/backup/all.tar"}
	err := m.run(t.Context(), save...)
	if err == nil || !strings.Contains(err.Error(), "open /secure/enc.yaml: file does not exist") {
		t.Errorf("without the file: %v", err)
	}
	if _, saved := m.world.Files["/backup/all.tar"]; saved {
		t.Error("an archive was saved")
	}
	m.world.Files["/secure/enc.yaml"] = memory.File{Data: []byte("resources: [{providers: [{kms: {name: a}}]}]"), Mode: 0o600}
	if err := m.run(t.Context(), save...); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.err.String(), "/secure/enc.yaml names a KMS plugin, whose key is not in the archive") {
		t.Errorf("no warning of the KMS plugin in %s", m.err.String())
	}
	if err := m.run(t.Context(), "etcd", "snapshot", "status", "/backup/all.tar"); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(strings.Fields(m.out.String()), " "); !strings.Contains(said, "encryption-provider-config.yaml 44 /secure/enc.yaml") {
		t.Errorf("got %s", m.out.String())
	}
}
