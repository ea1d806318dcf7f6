//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"kubeadm/test/nodes"
)

// listedMember is a member as "kubeadm etcd members" prints it.
type listedMember struct {
	Name, Node, Status, Problem, Role, Version string
	DBSize, DBSizeInUse                        int64
	RaftAppliedIndex, RaftLag                  uint64
	Alarms                                     []string
}

func listEtcdMembers(t *testing.T, n *nodes.Node) []listedMember {
	t.Helper()
	var list struct{ Members []listedMember }
	said := runCommand(t, n, kubeadm, "etcd", "members", "-o", "json")
	if err := json.Unmarshal([]byte(said), &list); err != nil {
		t.Fatalf("%v in %s", err, said)
	}
	return list.Members
}

// checkListedMembers checks that exactly these nodes have a healthy member, one of which leads.
func checkListedMembers(t *testing.T, at *nodes.Node, all ...*nodes.Node) {
	t.Helper()
	await(t, "healthy members of etcd", waitLimit, func() error {
		found, leaders := listEtcdMembers(t, at), 0
		if len(found) != len(all) {
			return fmt.Errorf("%d members, want %d: %+v", len(found), len(all), found)
		}
		for _, m := range found {
			if m.Role == "leader" {
				leaders++
			}
			if m.Status != "healthy" || m.Name != m.Node || m.Version == "" || m.DBSize == 0 || m.DBSizeInUse == 0 ||
				m.RaftAppliedIndex == 0 || len(m.Alarms) > 0 {
				return fmt.Errorf("member %+v", m)
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d leaders: %+v", leaders, found)
		}
		return nil
	})
}

// TestEtcdSnapshots saves snapshots on one control plane node.
func TestEtcdSnapshots(t *testing.T) {
	s := sharedCluster(t)
	checkListedMembers(t, s.cp, s.cp)
	t.Cleanup(func() {
		_, _ = s.cp.Run(context.Background(), "sh", "-c", "rm -rf /var/lib/kubeadm /root/[abc].db /root/archives")
	})
	for range 3 {
		runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "save", "--keep", "2")
	}
	var list struct {
		Snapshots []struct {
			File, Node string
			Size       int64
		}
	}
	if err := json.Unmarshal([]byte(runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Snapshots) != 2 || list.Snapshots[0].Node != s.cp.Name() || list.Snapshots[0].Size < 1<<19 {
		t.Fatalf("snapshots %+v", list)
	}
	file := list.Snapshots[1].File
	said := runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "status", file)
	for _, want := range []string{"CHECKSUM verified", "KUBERNETES v1.", "CLUSTER CA sha256:",
		"MEMBERS " + s.cp.Name(), "ENCRYPTION AT REST none"} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if mode := runShell(t, s.cp, "stat -c %a "+file); strings.TrimSpace(mode) != "600" {
		t.Errorf("the snapshot has mode %s", mode)
	}
	// With the keys of the cluster, for a passphrase.
	runShell(t, s.cp, "mkdir /root/archives; echo mine >/root/archives/all.db; echo correct horse >/root/archives/passphrase")
	runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "save", "--with-keys", "--passphrase-file=/root/archives/passphrase",
		"/root/archives/all.tar.age")
	said = runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "status", "--passphrase-file=/root/archives/passphrase",
		"/root/archives/all.tar.age")
	for _, want := range []string{"pki/ca.key", "pki/sa.key", "pki/etcd/ca.key", "config/kubeadm-config.yaml", "encrypted, made by kubeadm"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if left := runShell(t, s.cp, "cd /root/archives; if grep -q PRIVATE all.tar.age; then exit 1; fi; cat all.db; ls -A"); left !=
		"mine\nall.db\nall.tar.age\npassphrase" {
		t.Errorf("beside the archive are %q", left)
	}

	// Damaged files are told from good ones, and nothing crashes.
	runShell(t, s.cp, "cp "+file+" /root/a.db; truncate -s -1000 /root/a.db; cp "+file+
		" /root/b.db; printf x | dd of=/root/b.db bs=1 seek=50000 conv=notrunc status=none; cp /var/lib/etcd/member/snap/db /root/c.db")
	for damaged, want := range map[string]string{"a": "the file is incomplete", "b": "does not match its checksum",
		"c": "has no checksum at its end"} {
		result, err := s.cp.Run(t.Context(), kubeadm, "etcd", "snapshot", "status", "/root/"+damaged+".db")
		if err == nil || !strings.Contains(result.Stderr, want) || strings.Contains(result.Stderr, "goroutine") {
			t.Errorf("%s.db: %v\n%s", damaged, err, result.Stderr)
		}
	}
}

// TestEtcdMembers lists the members of three control plane nodes and removes a lost one.
func TestEtcdMembers(t *testing.T) {
	inFullRun(t, "three minutes")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createFirst(t.Context(), 3, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes[1:] {
		if err := s.joinNodes(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	checkListedMembers(t, s.cp, s.controlPlanes...)
	runCommand(t, s.controlPlanes[1], kubeadm, "etcd", "snapshot", "save")
	checkConflict(t, s.cp, s.controlPlanes[2])
	checkListedMembers(t, s.cp, s.controlPlanes...)

	lost := s.controlPlanes[2]
	if err := lost.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitQuorum(t, s.cp)
	for _, m := range listEtcdMembers(t, s.cp) {
		if (m.Status == "unreachable") != (m.Name == lost.Name()) {
			t.Errorf("member %+v", m)
		}
	}
	// Without the healthy one, there would be no quorum.
	result, err := s.cp.Run(t.Context(), kubeadm, "etcd", "members", "remove", s.controlPlanes[1].Name(), "--yes")
	if err == nil || !strings.Contains(result.Stderr, "cannot be removed") {
		t.Errorf("the removal of a member that the quorum needs: %v\n%s", err, result.Stderr)
	}
	runCommand(t, s.cp, kubeadm, "etcd", "members", "remove", lost.Name())
	checkListedMembers(t, s.cp, s.controlPlanes[:2]...)
}

// checkConflict has the etcd member of a node know one more member than the others do, as etcd of before 3.6 kept
// removed ones in its database. Each command that asks for the members must say so, and an upgrade refuse to
// begin; rejoin is the cure.
func checkConflict(t *testing.T, cp, other *nodes.Node) {
	t.Helper()
	const etcd, elsewhere = "/etc/kubernetes/manifests/etcd.yaml", "/root/etcd.yaml"
	runShell(t, other, "mv "+etcd+" "+elsewhere+"; while pgrep --exact etcd >/dev/null; do sleep 0.2; done")
	addToDatabase(t, other, "/var/lib/etcd/member/snap/db", "cafe", `{"id":51966,"peerURLs":["https://192.0.2.99:2380"]}`)
	runShell(t, other, "mv "+elsewhere+" "+etcd)
	const says = "it lists voter cafe at https://192.0.2.99:2380, which the others do not"
	await(t, "a member that contradicts the others", waitLimit, func() error {
		for _, m := range listEtcdMembers(t, cp) {
			if m.Name == other.Name() && (m.Status != "unhealthy" || !strings.Contains(m.Problem, says)) {
				return fmt.Errorf("member %+v", m)
			}
		}
		return nil
	})
	if result, err := cp.Run(t.Context(), upgradeCommand("v1.37.1", "--dry-run")...); err == nil ||
		!strings.Contains(result.Stderr, says) || !strings.Contains(result.Stderr, "kubeadm etcd rejoin") {
		t.Errorf("the upgrade: %v\n%s", err, result.Stderr)
	}
	if result, err := cp.Run(t.Context(), kubeadm, "doctor"); err == nil || !strings.Contains(result.Stdout, says) {
		t.Errorf("doctor: %v\n%s", err, result.Stdout)
	}
	runCommand(t, other, kubeadm, "etcd", "rejoin", "--yes")
}

// addToDatabase adds a member to the database of an etcd member that does not run.
func addToDatabase(t *testing.T, n *nodes.Node, file, id, member string) {
	t.Helper()
	data, err := n.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(local, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("members")).Put([]byte(id), []byte(member)) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(local); err != nil {
		t.Fatal(err)
	}
	if err := n.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fillEtcd creates ConfigMaps of 700 KiB until one is refused, or until there are that many, and returns
// the last error.
func fillEtcd(t *testing.T, cp *nodes.Node, count int) error {
	t.Helper()
	runShell(t, cp, "head -c 716800 /dev/zero | tr '\\0' x >/root/filler")
	for i := range count {
		if result, err := cp.Kubectl(t.Context(), "create", "configmap", fmt.Sprintf("filler-%d", i),
			"--from-file=/root/filler"); err != nil {
			return fmt.Errorf("%w: %s", err, result.Stderr)
		}
	}
	return nil
}

// TestEtcdSpace frees the space of three members without a failed request, and makes a cluster that has
// run out of space accept writes again.
func TestEtcdSpace(t *testing.T) {
	inFullRun(t, "two minutes")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createFirst(t.Context(), 3, 1, nodes.Config{
		Cluster: "etcd: {local: {extraArgs: [{name: quota-backend-bytes, value: '33554432'}]}}"}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes[1:] {
		if err := s.joinNodes(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.joinNodes(t.Context(), s.workers...); err != nil {
		t.Fatal(err)
	}

	if err := fillEtcd(t, s.cp, 20); err != nil {
		t.Fatal(err)
	}
	runShell(t, s.cp, "kubectl --kubeconfig /etc/kubernetes/admin.conf delete configmaps --field-selector metadata.name!=kube-root-ca.crt")
	var status []struct {
		Status struct{ Header struct{ Revision int64 } }
	}
	if err := json.Unmarshal([]byte(etcdctl(t, s.cp, "endpoint", "status", "--write-out=json")), &status); err != nil {
		t.Fatal(err)
	}
	etcdctl(t, s.cp, "compact", "--physical", fmt.Sprint(status[0].Status.Header.Revision))
	before := listEtcdMembers(t, s.cp)
	l := startLoad(t, s.cp, s.worker)
	time.Sleep(3 * time.Second)
	t.Logf("defrag printed\n%s", runCommand(t, s.controlPlanes[1], kubeadm, "etcd", "defrag"))
	time.Sleep(3 * time.Second)
	l.endWithoutFailure(t, s.cp)
	for i, m := range listEtcdMembers(t, s.cp) {
		if m.DBSize > before[i].DBSize/2 {
			t.Errorf("member %s had %d bytes and has %d", m.Name, before[i].DBSize, m.DBSize)
		}
	}

	if err := fillEtcd(t, s.cp, 100); err == nil || !strings.Contains(err.Error(), "database space exceeded") {
		t.Fatalf("etcd is not full: %v", err)
	}
	await(t, "the alarm", waitLimit, func() error {
		for _, m := range listEtcdMembers(t, s.cp) {
			if len(m.Alarms) > 0 {
				return nil
			}
		}
		return fmt.Errorf("no member has raised it")
	})
	runShell(t, s.cp, "kubectl --kubeconfig /etc/kubernetes/admin.conf delete configmaps --field-selector "+
		"metadata.name!=kube-root-ca.crt,metadata.name!=load")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // a client that keeps trying
		defer close(done)
		for ctx.Err() == nil {
			_, _ = s.worker.Run(t.Context(), "kubectl", "--kubeconfig="+loadConfig, "patch", "configmap", "load",
				"--patch", `{"data": {"value": "cured"}}`)
		}
	}()
	t.Logf("defrag printed\n%s", runCommand(t, s.cp, kubeadm, "etcd", "defrag"))
	kubectl(t, s.cp, "create", "configmap", "after", "--from-literal=a=b")
	cancel()
	<-done
	checkListedMembers(t, s.cp, s.controlPlanes...)
	if got := kubectl(t, s.cp, "get", "configmap", "load", "--output=jsonpath={.data.value}"); got != "cured" {
		t.Errorf("the client has written %q", got)
	}
}
