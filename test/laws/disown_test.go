package laws

import (
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fault"
)

// What a reset that was killed leaves behind must not pass for the work of an init or join to
// be gone on with, so their journal goes before anything else.
func TestResetRemovesJournalFirst(t *testing.T) {
	for _, name := range []string{"reset a control plane", "reset a worker"} {
		s := findSubject(name)
		t.Run(s.name, func(t *testing.T) {
			m, dir := s.machine(t), node.DefaultPaths().Journal()
			addFile(t, m, dir+"/journal", "{}")
			out := s.newRun(m).mustSucceed(t)
			if out.did[0] != change.Change(change.Remove{Path: dir}) {
				t.Errorf("the first change was: %s", out.did[0])
			}
		})
	}
}

// Data in the usual folder are not ours just because a client of an external etcd has its CA.
func TestResetKeepsDataOfExternalEtcd(t *testing.T) {
	s := findSubject("reset a worker")
	m := s.machine(t)
	addFile(t, m, "/etc/kubernetes/pki/etcd/ca.crt", "CA of somebody's etcd")
	addFile(t, m, "/var/lib/etcd/member/wal", "data")
	s.newRun(m).mustSucceed(t)
	if string(m.Files["/var/lib/etcd/member/wal"].Data) != "data" {
		t.Error("they are gone")
	}
}

// A file that cannot be removed is told, and keeps nothing else from being removed.
func TestResetContinuesWhenEtcdDataRemain(t *testing.T) {
	r := findSubject("reset a control plane").newRun(usedControlPlane(t))
	r.fault = &fault.World{At: 3}
	out := r.mustSucceed(t)
	if out.did[3].String() != `remove all Kubernetes containers` || r.machine.Services["kubelet"].Active {
		t.Fatalf("not the removal of the data failed: %v", describeChanges(out.did))
	}
	if _, there := r.machine.Files["/etc/kubernetes/admin.conf"]; there {
		t.Error("the credentials of the administrator are still there")
	}
}
