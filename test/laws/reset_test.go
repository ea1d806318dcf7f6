package laws

import (
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fault"
)

// The remains of a killed reset must not look like an interrupted init or join, so reset removes
// their journal first.
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

// The default data directory is not ours only because the CA of an external etcd exists.
func TestResetKeepsDataOfExternalEtcd(t *testing.T) {
	s := findSubject("reset a worker")
	m := s.machine(t)
	addFile(t, m, "/etc/kubernetes/pki/etcd/ca.crt", "CA of an external etcd")
	addFile(t, m, "/var/lib/etcd/member/wal", "data")
	s.newRun(m).mustSucceed(t)
	if string(m.Files["/var/lib/etcd/member/wal"].Data) != "data" {
		t.Error("the data were removed")
	}
}

// A file that cannot be removed does not stop the removal of the others.
func TestResetContinuesWhenEtcdDataRemain(t *testing.T) {
	r := findSubject("reset a control plane").newRun(usedControlPlane(t))
	r.fault = &fault.World{At: 2}
	out := r.mustSucceed(t)
	if out.did[4].String() != `remove all Kubernetes containers` ||
		r.machine.Services["kubelet"].Active {
		t.Fatalf("another change failed than the removal of the data: %v", describeChanges(out.did))
	}
	if _, there := r.machine.Files["/etc/kubernetes/admin.conf"]; there {
		t.Error("admin.conf still exists")
	}
}
