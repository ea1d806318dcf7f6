//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

func nodeNameCommand(sub string, more ...string) []string {
	return append([]string{kubeadm, "node-name", sub, "--ignore-preflight-errors=" + nodes.IgnoredPreflight}, more...)
}

// runNodeName runs a subcommand of "kubeadm node-name", and logs how long it took.
func runNodeName(t *testing.T, n *nodes.Node, sub string, more ...string) string {
	t.Helper()
	result, err := n.Run(t.Context(), nodeNameCommand(sub, more...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, result.Stdout)
	}
	t.Logf("%s: node-name %s %s in %s\n%s", n.Name(), sub, strings.Join(more, " "),
		result.Duration.Round(10*time.Millisecond), result.Stdout)
	return result.Stdout
}

// renameHost gives the host of a node another name, now and at the next boot.
func renameHost(t *testing.T, n *nodes.Node, name string) {
	t.Helper()
	runShell(t, n, fmt.Sprintf("echo %[1]s >/etc/hostname; hostname %[1]s", name))
}

// awaitNotReady waits until the controllers have noticed that a kubelet no longer reports.
func awaitNotReady(t *testing.T, cp *nodes.Node, name string) {
	t.Helper()
	await(t, name+" to be NotReady", waitLimit, func() error {
		ready, err := cp.Kubectl(t.Context(), "get", "node", name,
			`--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready.Stdout == "True" {
			err = fmt.Errorf("it counts as ready")
		}
		return err
	})
}

// checkNamedKubelet checks as which node a kubelet runs.
func checkNamedKubelet(t *testing.T, n *nodes.Node) {
	t.Helper()
	if got := commandLine(t, n, "kubelet"); !strings.Contains(got+" ", "--hostname-override="+n.Name()+" ") {
		t.Errorf("the kubelet of %s runs as %s", n.Name(), got)
	}
	if got := runShell(t, n, "grep -c hostname-override /var/lib/kubelet/kubeadm-flags.env"); strings.TrimSpace(got) != "1" {
		t.Errorf("the argument is set %s times", got)
	}
}

// TestNodeNameKept renames the hosts of a worker and of the only control plane node, whose kubelets are refused then: the
// doctor names the command, which repairs the nodes, also if it is killed. Prepared, a host is renamed without a gap.
// Other commands keep the name.
func TestNodeNameKept(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	must(t, awaitClusterReady(t.Context(), s.cp, 2))

	renameHost(t, s.worker, "rack7")
	runShell(t, s.worker, "systemctl restart kubelet")
	renameHost(t, s.cp, "rack8")
	must(t, s.cp.Kill(t.Context())) // the static Pods start under other names
	must(t, s.cp.Boot(t.Context()))
	await(t, "the API server", waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "get", "--raw=/readyz")
		return err
	})
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		awaitNotReady(t, s.cp, n.Name())
		said := runShell(t, n, kubeadm+" doctor || true")
		if !strings.Contains(said, "NodeName") || !strings.Contains(said, "kubeadm node-name keep") {
			t.Errorf("the doctor does not name the command:\n%s", said)
		}
	}
	if log := runShell(t, s.worker, "journalctl -u kubelet -n 200 | grep -m1 rack7.*forbidden || true"); log == "" {
		t.Error("the kubelet does not log that it is refused")
	} else {
		t.Log(log)
	}
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		runNodeName(t, n, "keep", "--dry-run")
		if _, killed := runInterrupted(t, n, unix.SIGKILL, func(line string) bool {
			change, _ := doneChange(line)
			return strings.Contains(change, "/var/lib/kubelet/kubeadm-flags.env")
		}, nodeNameCommand("keep", "-v=1")...); !killed {
			t.Errorf("the command was not killed on %s", n.Name())
		}
		runNodeName(t, n, "keep")
		checkNamedKubelet(t, n)
	}
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	if said := runNodeName(t, s.worker, "keep"); !strings.Contains(said, "there is nothing to do") {
		t.Errorf("the same command says\n%s", said)
	}
	if names := runShell(t, s.cp, "kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes -o name"); strings.Contains(names, "rack") {
		t.Errorf("the Nodes are\n%s", names)
	}
	if said := runShell(t, s.cp, kubeadm+" doctor || true"); strings.Contains(said, "NodeName: ") {
		t.Errorf("the doctor says\n%s", said)
	}
	checkVotingMembers(t, s.cp)

	// Prepared, and over a restart of the machine.
	renameHost(t, s.worker, "rack9")
	must(t, s.worker.Kill(t.Context()))
	must(t, s.worker.Boot(t.Context()))
	runNodeName(t, s.worker, "keep") // which waits for the Node
	// Other commands keep the name.
	runReconfigure(t, s.worker, "node", "--kubelet-arg=max-pods=99")
	checkNamedKubelet(t, s.worker)
	runCommand(t, s.worker, kubeadm, "upgrade", "node", "--ignore-preflight-errors="+nodes.IgnoredPreflight)
	checkNamedKubelet(t, s.worker)
	runCommand(t, s.cp, kubeadm, "certs", "renew", "all", "--restart")
	runCommand(t, s.cp, kubeadm, "certs", "renew", "kubelet.conf")
	checkNamedKubelet(t, s.cp)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
}
