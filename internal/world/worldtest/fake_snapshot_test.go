package worldtest_test

import (
	"errors"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/worldtest"
)

// newMachineWithSnapshots is a machine with a started and an unreachable etcd member.
func newMachineWithSnapshots() (*fake.World, state.Etcd) {
	w := fake.New()
	w.MemberList = []state.Member{
		{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"},
			ClientURLs: []string{"https://192.0.2.10:2379"}},
		{ID: 2, Name: "down", PeerURLs: []string{"https://192.0.2.11:2380"},
			ClientURLs: []string{"https://127.0.0.1:1"}, Learner: true},
	}
	w.UnreachableMembers = []uint64{2}
	return w, state.Etcd{Endpoints: w.MemberList[0].ClientURLs}
}

func TestFakeSnapshots(t *testing.T) {
	w, via := newMachineWithSnapshots()
	worldtest.Snapshots(t, w, via, "/contract")
}

func TestSnapshotWithoutDiskSpace(t *testing.T) {
	w, via := newMachineWithSnapshots()
	save := change.SaveSnapshot{Path: "/backup/snapshot.db", Via: via}
	w.EtcdSize, w.DiskFree = 2<<30, 2<<30
	err := w.Do(t.Context(), save)
	const want = "not enough free disk space for a snapshot of etcd: " +
		"/backup/snapshot.db needs 2048 MiB plus a reserve of 64 MiB, but only 2048 MiB is free"
	if !errors.Is(err, change.ErrNoSpace) || err.Error() != want || len(problem.Hints(err)) == 0 {
		t.Errorf("got %v", err)
	}
	if _, left := w.Files[save.Path]; left {
		t.Error("the snapshot exists")
	}
	w.DiskFree += 64 << 20
	if err := w.Do(t.Context(), save); err != nil {
		t.Error(err)
	}
}
