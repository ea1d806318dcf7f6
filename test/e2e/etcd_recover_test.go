//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// rejoinEtcd runs "kubeadm etcd rejoin" on a node.
func rejoinEtcd(t *testing.T, n *nodes.Node) {
	t.Helper()
	result, err := n.Run(t.Context(), kubeadm, "etcd", "rejoin", "--yes")
	t.Logf("%s\n%s", result.Stdout, result.Stderr)
	must(t, err)
	t.Logf("%s rejoined in %s", n.Name(), result.Duration.Round(time.Second/10))
}

// TestRejoinDamagedMember loses the data of one etcd member and damages those of another. "kubeadm etcd
// rejoin" repairs both, and the API answers all along.
func TestRejoinDamagedMember(t *testing.T) {
	inFullRun(t, "two minutes")
	parallel(t)
	s := newThreeControlPlanes(t, 0)
	createWitness(t, s.cp)
	stop := monitorAPI(t, s)
	for i, damage := range []string{
		"rm -rf /var/lib/etcd/member",
		"dd if=/dev/urandom of=/var/lib/etcd/member/snap/db bs=4096 count=200 conv=notrunc 2>&1",
	} {
		n := s.controlPlanes[i+1]
		runShell(t, n, "mv /etc/kubernetes/manifests/etcd.yaml /root/; while pgrep --exact etcd >/dev/null; do sleep 0.2; done; "+
			damage+"; mv /root/etcd.yaml /etc/kubernetes/manifests/")
		rejoinEtcd(t, n)
		checkVotingMembers(t, s.controlPlanes...)
	}
	stop()
	for _, n := range s.controlPlanes {
		awaitWitness(t, n)
	}
	if again := runCommand(t, s.cp, kubeadm, "etcd", "rejoin", "--yes"); !strings.Contains(again, "there is nothing to do") {
		t.Errorf("on a healthy member it says %q", again)
	}
}

// TestRecoverEtcdQuorum destroys two of three control planes. The third continues alone, and two new
// machines join it. While another node may still be alive, it refuses.
func TestRecoverEtcdQuorum(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	s := newThreeControlPlanes(t, 1)
	createWitness(t, s.cp)
	recovery := []string{kubeadm, "etcd", "recover", "--yes", "-v=1", "--lost-member=cp2,cp3"}
	if said := runCommand(t, s.cp, recovery...); !strings.Contains(said, "etcd has a quorum: there is nothing to recover") {
		t.Errorf("with a quorum it says %q", said)
	}
	checkNamesNewestData(t, s, recovery)
	for _, n := range s.controlPlanes[1:] { // their API servers run on for a while
		stopEtcd(t, n)
	}
	result, err := s.cp.Run(t.Context(), recovery...)
	t.Logf("while API servers answer:\n%s", result.Stderr)
	if err == nil || !strings.Contains(result.Stderr, "answers, so the quorum may come back") {
		t.Errorf("it is not refused: %v", err)
	}
	for _, n := range s.controlPlanes[1:] {
		must(t, s.DestroyNode(t.Context(), n))
	}
	result, err = s.cp.Run(t.Context(), kubeadm, "etcd", "recover", "--yes")
	if err == nil || !strings.Contains(result.Stderr, "--lost-member=cp2,cp3") {
		t.Errorf("without the names it says %s", result.Stderr)
	}
	began := time.Now()
	result, err = s.cp.Run(t.Context(), recovery...)
	t.Logf("%s\n%s", result.Stdout, result.Stderr)
	must(t, err)
	t.Logf("recovered in %s", result.Duration.Round(time.Second/10))
	awaitWitness(t, s.cp)
	checkVotingMembers(t, s.cp)
	for _, name := range []string{"cp2", "cp3"} {
		if !strings.Contains(result.Stdout, "kubectl delete node "+name) {
			t.Errorf("it does not name the Node %s", name)
		}
		kubectl(t, s.cp, "delete", "node", name)
	}
	setControlPlanes(t, s, s.cp)
	for _, name := range []string{"cp4", "cp5"} {
		n := addNode(t, s.Cluster, name)
		runCommand(t, n, controlPlaneJoinCommand(kubeadm, s)...)
		addControlPlane(t, s, n)
	}
	checkVotingMembers(t, s.controlPlanes...)
	t.Logf("three control planes again after %s", time.Since(began).Round(time.Second/10))
	must(t, awaitClusterReady(t.Context(), s.cp, 4))
}

// stopEtcd stops the etcd member of a node, if it runs.
func stopEtcd(t *testing.T, n *nodes.Node) {
	t.Helper()
	runShell(t, n, "mv /etc/kubernetes/manifests/etcd.yaml /root/ 2>/dev/null || true; "+
		"while pgrep --exact etcd >/dev/null; do sleep 0.2; done")
}

// checkNamesNewestData loses the quorum of three members while the second one has newer data than the
// first: the first one's node refuses to recover, and says so. Afterwards these two have a quorum again.
func checkNamesNewestData(t *testing.T, s *haCluster, recovery []string) {
	t.Helper()
	first, second, third := s.controlPlanes[0], s.controlPlanes[1], s.controlPlanes[2]
	// The first member keeps running: without a quorum, one that is started again serves no clients.
	const peers = "for chain in INPUT OUTPUT; do iptables --%s $chain --protocol tcp --dport 2380 --jump DROP; " +
		"iptables --%s $chain --protocol tcp --sport 2380 --jump DROP; done"
	runShell(t, first, fmt.Sprintf(peers, "append", "append"))
	await(t, "a write by two of three members", waitLimit, func() error {
		_, err := second.Kubectl(t.Context(), "--server=https://"+second.Address()+":6443", "create", "configmap", "newer")
		return err
	})
	stopEtcd(t, third)
	result, err := first.Run(t.Context(), recovery...)
	t.Logf("while another member has newer data:\n%s", result.Stderr)
	if err == nil || !strings.Contains(result.Stderr, "the etcd member of cp2 answers") ||
		!strings.Contains(result.Stderr, "its data are newer than those of this node") {
		t.Errorf("it does not name the node with the newest data: %v", err)
	}
	runShell(t, first, fmt.Sprintf(peers, "delete", "delete"))
	awaitQuorum(t, first)
}

// TestEtcdDataInterruptedAtEveryChange kills restore, rejoin and recover at each of their changes, also with
// a power cut of the machine. The same command goes on each time, and no object is lost.
func TestEtcdDataInterruptedAtEveryChange(t *testing.T) {
	inFullRun(t, "half an hour")
	for _, with := range interruptions {
		for name, interrupt := range map[string]func(*testing.T, interruption, *haCluster){
			"restore": interruptRestore, "rejoin": interruptRejoin, "recover": interruptRecover,
		} {
			t.Run(name+" "+with.name, func(t *testing.T) {
				parallel(t)
				s := newThreeControlPlanes(t, 0)
				createWitness(t, s.cp)
				interrupt(t, with, s)
				awaitWitness(t, s.cp)
			})
		}
	}
}

func restoreCommand() []string {
	return []string{kubeadm, "etcd", "restore", snapshotFile, "--yes", "-v=1"}
}

func interruptRestore(t *testing.T, with interruption, s *haCluster) {
	runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "save", snapshotFile)
	interruptAtEveryChange(t, with, s.cp, nil, restoreCommand())
	for _, n := range s.controlPlanes[1:] {
		rejoinEtcd(t, n)
	}
	checkVotingMembers(t, s.controlPlanes...)
}

func interruptRejoin(t *testing.T, with interruption, s *haCluster) {
	runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "save", snapshotFile)
	runCommand(t, s.cp, restoreCommand()...)
	interruptAtEveryChange(t, with, s.controlPlanes[1], nil, []string{kubeadm, "etcd", "rejoin", "--yes", "-v=1"})
	checkVotingMembers(t, s.controlPlanes[:2]...)
}

func interruptRecover(t *testing.T, with interruption, s *haCluster) {
	for _, n := range s.controlPlanes[1:] {
		must(t, s.DestroyNode(t.Context(), n))
	}
	interruptAtEveryChange(t, with, s.cp, nil, []string{kubeadm, "etcd", "recover", "--yes", "-v=1", "--lost-member=cp2,cp3"})
	checkVotingMembers(t, s.cp)
}
