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
	inFullRun(t, "two minutes")
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

// localVolume is a volume that only Pods on a node can use.
const localVolume = `apiVersion: v1
kind: PersistentVolume
metadata: {name: local-data}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /srv/data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}
`

// checkRenamed checks that a Node has taken the place of another one, with what an administrator had set.
func checkRenamed(t *testing.T, cp *nodes.Node, from, to string) {
	t.Helper()
	if names := kubectl(t, cp, "get", "nodes", "--output=name"); strings.Contains(names+"\n", "node/"+from+"\n") ||
		!strings.Contains(names+"\n", "node/"+to+"\n") {
		t.Errorf("the Nodes are\n%s", names)
	}
	if got := kubectl(t, cp, "get", "node", to, `--output=jsonpath={.metadata.labels.disk} {.metadata.labels.kubernetes\.io/hostname} `+
		`{.metadata.annotations.example\.com/rack} {.metadata.annotations.kubeadm\.kubernetes\.io/renamed-from} {.spec.unschedulable} `+
		`{.spec.taints[?(@.key=="dedicated")].value}`); got != "ssd "+to+" r7   db" {
		t.Errorf("Node %s has %q", to, got)
	}
	leases := kubectl(t, cp, "get", "leases", "--namespace=kube-node-lease", "--output=name")
	pods := kubectl(t, cp, "get", "pods", "--all-namespaces", "--field-selector=spec.nodeName="+from, "--output=name")
	if strings.Contains(leases+"\n", "/"+from+"\n") || strings.TrimSpace(pods) != "" {
		t.Errorf("Leases\n%s\nPods\n%s", leases, pods)
	}
}

// markNode sets on a node what a kubelet may not set.
func markNode(t *testing.T, cp *nodes.Node, name string) {
	t.Helper()
	kubectl(t, cp, "label", "node", name, "disk=ssd")
	kubectl(t, cp, "annotate", "node", name, "example.com/rack=r7")
	kubectl(t, cp, "taint", "node", name, "dedicated=db:PreferNoSchedule")
}

func killNodeNameChange(t *testing.T, n *nodes.Node, text string, args ...string) {
	t.Helper()
	if _, killed := runInterrupted(t, n, unix.SIGKILL, func(line string) bool {
		change, _ := doneChange(line)
		return strings.Contains(change, text)
	}, nodeNameCommand("change", append(args, "--yes", "-v=1")...)...); !killed {
		t.Errorf("the command was not killed after %q", text)
	}
}

// TestNodeRenamed gives a worker and the only control plane node other names, with labels, taints and annotations. It is
// killed, taken back, and refused where volumes are bound to the name.
func TestNodeRenamed(t *testing.T) {
	inFullRun(t, "three minutes")
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	cp, worker := s.cp, s.worker
	markNode(t, cp, "worker1")
	admin := readFile(t, cp, "/etc/kubernetes/admin.conf")
	writeFile(t, worker, "/root/admin.conf", string(admin))
	asAdmin := []string{"--kubeconfig=/root/admin.conf"}
	command := func(args ...string) []string { return nodeNameCommand("change", append(args, "--yes")...) }
	checkFails(t, worker, []string{"an administrator has to give the node another name", "--kubeconfig"}, command("rack7")...)
	checkFails(t, worker, []string{"the cluster has a Node cp1 already"}, command(append(asAdmin, "cp1")...)...)
	writeFile(t, cp, "/root/volume.yaml", fmt.Sprintf(localVolume, "worker1"))
	kubectl(t, cp, "apply", "--filename=/root/volume.yaml")
	checkFails(t, worker, []string{"local-data", "kubeadm node-name keep", "LocalVolumes"}, command(append(asAdmin, "rack7")...)...)
	kubectl(t, cp, "delete", "persistentvolume", "local-data")

	runNodeName(t, worker, "change", append(asAdmin, "rack7", "--dry-run")...)
	killNodeNameChange(t, worker, `"/var/lib/kubelet/kubeadm-flags.env"`, append(asAdmin, "rack7")...)
	if said := runShell(t, worker, kubeadm+" doctor || true"); !strings.Contains(said, "kubeadm node-name change rack7") {
		t.Errorf("the doctor does not name the command:\n%s", said)
	}
	runNodeName(t, worker, "change", append(asAdmin, "worker1", "--yes")...) // the way back
	checkRenamed(t, cp, "rack7", "worker1")
	killNodeNameChange(t, worker, `start service "kubelet"`, append(asAdmin, "rack7")...)
	runNodeName(t, worker, "change", append(asAdmin, "rack7", "--yes")...)
	checkRenamed(t, cp, "worker1", "rack7")
	must(t, awaitClusterReady(t.Context(), cp, 2))
	if said := runNodeName(t, worker, "change", append(asAdmin, "rack7")...); !strings.Contains(said, "already") {
		t.Errorf("the same command says\n%s", said)
	}

	markNode(t, cp, "cp1")
	runNodeName(t, cp, "change", "cp9", "--dry-run")
	killNodeNameChange(t, cp, "remove the containers of Pod kube-apiserver", "cp9")
	runNodeName(t, cp, "change", "cp9", "--yes")
	checkRenamed(t, cp, "cp1", "cp9")
	must(t, awaitClusterReady(t.Context(), cp, 2))
	for _, base := range []string{"apiserver", "etcd/server", "etcd/peer"} {
		cert := parseOne(t, readFile(t, cp, certsDir+base+".crt"))
		if cert.VerifyHostname("cp9") != nil || cert.VerifyHostname("cp1") == nil || cert.Subject.CommonName == "cp1" {
			t.Errorf("%s is for %s %v", base, cert.Subject.CommonName, cert.DNSNames)
		}
	}
	members := runCommand(t, cp, kubeadm, "etcd", "members")
	if !strings.Contains(members, "cp9") || strings.Contains(members, "cp1 ") {
		t.Errorf("the members are\n%s", members)
	}
	must(t, cp.Kill(t.Context()))
	must(t, cp.Boot(t.Context()))
	must(t, awaitClusterReady(t.Context(), cp, 2))
	runReconfigure(t, cp, "apply", "--set-arg=kube-scheduler:v=3")
	runReconfigure(t, worker, "node", "--kubelet-arg=max-pods=99")
	if said := runShell(t, cp, kubeadm+" doctor || true"); strings.Contains(said, "NodeName: ") || strings.Contains(said, "ManifestDrift: ") {
		t.Errorf("the doctor says\n%s", said)
	}
}

// TestNodeRenamedHA gives one of three control plane nodes another name under a client of the load balancer, killed in
// between and back, and then one of two workers. No request fails, as the load balancer leaves the control plane node before
// its API server is replaced.
func TestNodeRenamedHA(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	r := newRotatedClusterOf(t, 3, 2, nodes.Config{
		Cluster: "apiServer:\n  extraArgs:\n  - {name: shutdown-delay-duration, value: 5s}\n"})
	renamed := r.controlPlanes[1]
	name := renamed.Name()
	markNode(t, r.cp, name)
	r.balance(t, r.cp, r.controlPlanes[2])
	killNodeNameChange(t, renamed, "manifests/etcd.yaml", "cp9")
	runNodeName(t, renamed, "change", name, "--yes") // the way back
	checkRenamed(t, r.cp, "cp9", name)
	killNodeNameChange(t, renamed, "remove the containers of Pod etcd", "cp9")
	runNodeName(t, renamed, "change", "cp9", "--yes")
	checkRenamed(t, r.cp, name, "cp9")
	r.balance(t, r.controlPlanes...)
	must(t, awaitClusterReady(t.Context(), r.cp, 5))
	r.load.endStep(t, "a control plane node gets another name, also killed and back")

	worker := r.workers[1] // the client runs on the other one
	markNode(t, r.cp, worker.Name())
	writeFile(t, worker, "/root/admin.conf", readFile(t, r.cp, "/etc/kubernetes/admin.conf"))
	killNodeNameChange(t, worker, `start service "kubelet"`, "--kubeconfig=/root/admin.conf", "rack7")
	runNodeName(t, worker, "change", "--kubeconfig=/root/admin.conf", "rack7", "--yes")
	checkRenamed(t, r.cp, worker.Name(), "rack7")
	must(t, awaitClusterReady(t.Context(), r.cp, 5))
	r.load.endStep(t, "a worker gets another name, killed in between")
	r.endLoad(t)
	members := strings.Join(describeMembers(t, r.cp), "\n")
	if !strings.Contains(members, "cp9 votes at https://"+renamed.Address()+":2380") || strings.Contains(members, name+" ") {
		t.Errorf("the members are\n%s", members)
	}
	runReconfigure(t, r.cp, "apply", "--set-arg=kube-scheduler:v=3")
	runReconfigure(t, renamed, "node")
	must(t, awaitClusterReady(t.Context(), r.cp, 5))
}
