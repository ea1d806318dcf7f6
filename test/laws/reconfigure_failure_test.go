package laws

import (
	"strings"
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// checkUntouched checks that the files of a machine are as before.
func checkUntouched(t *testing.T, before, after *fake.World) {
	t.Helper()
	for _, file := range append(listManifests(), node.DefaultPaths().KubeletConfig()) {
		if diff := diffLines(string(before.Files[file].Data), string(after.Files[file].Data)); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}

// After another client has edited the configuration, an undo names the field and changes nothing.
func TestUndoAfterForeignEditIsRefused(t *testing.T) {
	s := reconfigure(changedConfig)
	w := s.machine(t)
	s.newRun(w).mustSucceed(t)
	editConfig(t, w, "value: 2h", "value: 3h")
	before := w.Clone()
	err := tryFind(t, w, reconfiguration.FindUndo)
	if err == nil || !strings.Contains(err.Error(), "changed in another way since: ClusterConfiguration apiServer.extraArgs[event-ttl]") {
		t.Errorf("the undo ended with: %v", err)
	}
	checkUntouched(t, before, w)
}

// Of two operators on two nodes, the second one is told that the first one has begun a change, and changes nothing.
func TestReconfigureOfTwoOperators(t *testing.T) {
	s := reconfigure(changedConfig)
	setUp := s.setUp
	s.setUp = func(t testing.TB, e *engine.Env) error {
		if err := setUp(t, e); err != nil {
			return err
		}
		intent := reconfiguration.IntentOf(e)
		other := reconfiguration.New("cp2", intent.Stored, config.StoredConfig{Cluster: clusterDocument}, e.World.Now())
		changes, err := other.StoreChanges(state.Identity{})
		for _, c := range changes {
			if err == nil {
				err = e.World.Do(t.Context(), c)
			}
		}
		return err
	}
	w := s.machine(t)
	before := w.Clone()
	if err := s.newRun(w).execute(t).err; err == nil || !strings.Contains(err.Error(), "begun on node cp2 meanwhile") {
		t.Errorf("the command ended with: %v", err)
	}
	checkUntouched(t, before, w)
}

// A file that was edited from a configuration which another operator has changed since is refused, also if that change was
// interrupted. The file's own change is resumed wherever it was killed.
func TestEditedFileOfTwoOperators(t *testing.T) {
	machine := newReconfiguredMachine(t)
	stored, err := existing.ReadStoredConfig(t.Context(), machine, state.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	edited := request(reconfiguration.Request{Base: baseOf(t, stored),
		File: config.File{Name: "edited.yaml", Data: []byte(clusterDocument + "certificateValidityPeriod: 9000h0m0s\n")}})
	other := reconfigure(changedConfig)
	whole := other.machine(t)
	other.newRun(whole).mustSucceed(t)
	for name, w := range map[string]*fake.World{"complete": whole, "interrupted": other.killAt(t, "kubelet-config").machine} {
		if err := tryFind(t, w, edited); err == nil || !strings.Contains(err.Error(), "has changed since you opened it") {
			t.Errorf("after another change, %s, the file is not refused: %v", name, err)
		}
	}
	s := reconfigure("").with(edited)
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		now, err := existing.ReadStoredConfig(t.Context(), r.machine, state.Identity{})
		if err != nil || !strings.Contains(now.Cluster, "certificateValidityPeriod: 9000h0m0s") {
			t.Errorf("the cluster stores %v, %v", now, err)
		}
	})
}

// Without a quorum of etcd, or if the restart of this node's member would cost it, nothing is changed.
func TestReconfigureWithoutQuorum(t *testing.T) {
	for name, lost := range map[string][]uint64{"no quorum": {2, 3}, "no quorum during a restart": {3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := reconfigure(changedConfig)
			w := s.machine(t)
			for id, host := range map[uint64]string{2: "192.0.2.12", 3: "192.0.2.13"} {
				w.MemberList = append(w.MemberList, state.Member{ID: id, Name: host, PeerURLs: []string{"https://" + host + ":2380"},
					ClientURLs: []string{"https://" + host + ":2379"}})
			}
			w.UnreachableMembers = lost
			before := w.Clone()
			if err := s.newRun(w).execute(t).err; err == nil || !strings.Contains(err.Error(), "quorum") &&
				!strings.Contains(err.Error(), "etcd has no leader") {
				t.Errorf("the command ended with: %v", err)
			}
			checkUntouched(t, before, w)
			if readChange(t, w) != nil {
				t.Error("a change was begun")
			}
		})
	}
}

// A node that was down for several changes follows all of them at once.
func TestNodeThatMissedChangesFollows(t *testing.T) {
	first := reconfigure(changedConfig)
	w := first.machine(t)
	absent := w.Clone()
	first.newRun(w).mustSucceed(t)
	second := reconfigure(strings.Replace(changedConfig, `value: "3"`, `value: "4"`, 1))
	second.newRun(w).mustSucceed(t)
	absent.Objects = w.Clone().Objects
	s := reconfigureNode(nil)
	s.machine = func(testing.TB) *fake.World { return withFastClock(absent.Clone()) }
	s.killEverywhere(t, func(t *testing.T, r killedRun) {
		r.rerun().mustSucceed(t)
		checkUntouched(t, w, r.machine)
		certs, err := pki.ParseCertificates(r.machine.Files["/etc/kubernetes/pki/apiserver.crt"].Data)
		if err != nil || certs[0].VerifyHostname("api.example.com") != nil {
			t.Errorf("the certificate lacks the name: %v", err)
		}
	})
}
