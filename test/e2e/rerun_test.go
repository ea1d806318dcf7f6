//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

// listObjects lists the objects that init creates, with their versions, and the Node's labels and
// taints, except those of the node lifecycle controller: a kubelet that restarts is briefly not
// ready.
func listObjects(t *testing.T, cp *nodes.Node, node string) []string {
	t.Helper()
	const kinds = "configmaps,secrets,serviceaccounts,services,roles,rolebindings"
	const versions = `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`
	list := kubectl(t, cp, "get", "--namespace=kube-system", "--output="+versions, kinds) + "\n" +
		kubectl(t, cp, "get", "--namespace=kube-public", "--output="+versions, kinds)
	lines := strings.Split(list, "\n")
	n := readObject[corev1.Node](t, cp, "node", node)
	for key, value := range n.Labels {
		lines = append(lines, "label "+key+"="+value)
	}
	for _, taint := range n.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			lines = append(lines, "taint "+taint.ToString())
		}
	}
	slices.Sort(lines)
	return lines
}

// digestJournal returns the digests of the journal's files.
func digestJournal(t *testing.T, n *nodes.Node) string {
	t.Helper()
	return runShell(t, n, "cd /etc/kubernetes/tmp/kubeadm-journal && sha256sum *")
}

// killAPIServer kills the node's API server; a node has a process namespace of its own.
const killAPIServer = "kill -9 $(pidof kube-apiserver)"

// stopAPIServer kills a control plane's API server. It stays down while the kubelet is stopped.
func stopAPIServer(t *testing.T, cp *nodes.Node) {
	t.Helper()
	runShell(t, cp, killAPIServer)
}

// runAfterTest runs a script on a node when the test has ended.
func runAfterTest(t *testing.T, n *nodes.Node, script string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := n.Run(context.Background(), "sh", "-ec", script); err != nil {
			t.Error(err)
		}
	})
}

// checkChangesNothing checks that act changes neither a node's files and journal nor the cluster's
// objects.
func checkChangesNothing(t *testing.T, cp, n *nodes.Node, act func()) {
	t.Helper()
	files, journal, objects := listFiles(t, n), digestJournal(t, n), listObjects(t, cp, n.Name())
	act()
	if changed := changedFiles(files, listFiles(t, n)); len(changed) > 0 {
		t.Errorf("files were rewritten:%s", indentLines(changed))
	}
	if digestJournal(t, n) != journal {
		t.Error("the journal was written")
	}
	if after := listObjects(t, cp, n.Name()); !slices.Equal(objects, after) {
		gone := slices.DeleteFunc(slices.Clone(objects),
			func(line string) bool { return slices.Contains(after, line) })
		fresh := slices.DeleteFunc(slices.Clone(after),
			func(line string) bool { return slices.Contains(objects, line) })
		t.Errorf("the cluster was changed; before:%s\nafter:%s", indentLines(gone),
			indentLines(fresh))
	}
}

// runFinishedCommand runs a command again that has finished before, and checks that it says so.
func runFinishedCommand(t *testing.T, n *nodes.Node, command ...string) {
	t.Helper()
	result, err := n.Run(t.Context(), command...)
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(result.Stdout, "nothing was changed") ||
		strings.Contains(result.Stdout, "] done: ") {
		t.Errorf("the command, run again after it finished, prints:\n%s", result.Stdout)
	}
	t.Logf("%s %s: %s", n.Name(), command[1], result.Duration.Round(100*time.Millisecond))
}

// TestRerunOfFinishedInitChangesNothing runs init again on a control plane whose settings were
// edited, while its API server is up, while it restarts and while it is down.
func TestRerunOfFinishedInitChangesNothing(t *testing.T) {
	s := sharedCluster(t)
	command := []string{kubeadm, "init", "--config", "/root/kubeadm.yaml", "--upload-certs", "-v=1"}
	const taint = "node-role.kubernetes.io/control-plane:NoSchedule"
	kubectl(t, s.cp, "taint", "node", "cp1", taint+"-")
	kubectl(t, s.cp, "--namespace=kube-system", "patch", "configmap", "kube-proxy", "--patch",
		`{"data":{"edited":"yes"}}`)
	runAfterTest(t, s.cp,
		"kubectl --kubeconfig /etc/kubernetes/admin.conf taint --overwrite node cp1 "+taint)
	runAfterTest(t, s.cp,
		`kubectl --kubeconfig /etc/kubernetes/admin.conf --namespace=kube-system patch configmap kube-proxy --type=json --patch '[{"op":"remove","path":"/data/edited"}]'`)
	impatient := nodes.InitConfig(nodes.Config{Address: s.cp.Address(),
		Init: "timeouts:\n  kubernetesAPICall: 3s\n"})
	writeFile(t, s.cp, "/root/impatient.yaml", impatient)
	checkChangesNothing(t, s.cp, s.cp, func() {
		runFinishedCommand(t, s.cp, command...)
		runShell(t, s.cp, "systemctl stop kubelet")
		started := false
		defer func() {
			if !started {
				runShell(t, s.cp, "systemctl start kubelet")
			}
		}()
		stopAPIServer(t, s.cp)
		checkFails(t, s.cp, []string{"checking the existing node", "the API server to answer", "crictl"},
			kubeadm, "init", "--config", "/root/impatient.yaml", "--upload-certs", "-v=1")
		time.AfterFunc(3*time.Second, func() { runShell(t, s.cp, "systemctl start kubelet") })
		started = true
		runFinishedCommand(t, s.cp, command...)
		stopAPIServer(t, s.cp)
		runFinishedCommand(t, s.cp, command...)
	})
}

// TestRerunOfFinishedWorkerJoinChangesNothing runs join again with a token that has expired, while
// the API server restarts, on a worker whose settings were edited.
func TestRerunOfFinishedWorkerJoinChangesNothing(t *testing.T) {
	s := sharedCluster(t)
	token := flagValue(t, s.workerJoin, "--token")
	command := append(slices.Clone(s.workerJoin),
		"--ignore-preflight-errors="+nodes.IgnoredPreflight, "-v=1")
	command[slices.Index(command, token)] = "zzzzzz.zzzzzzzzzzzzzzzz"
	runShell(t, s.worker,
		"cp -p /var/lib/kubelet/config.yaml /root/config.yaml; echo '# edited' >> /var/lib/kubelet/config.yaml")
	runAfterTest(t, s.worker, "cp -p /root/config.yaml /var/lib/kubelet/config.yaml")
	kubectl(t, s.cp, "taint", "node", "worker1", "edited=yes:PreferNoSchedule")
	runAfterTest(t, s.cp,
		"kubectl --kubeconfig /etc/kubernetes/admin.conf taint node worker1 edited-")
	checkChangesNothing(t, s.cp, s.worker, func() {
		runFinishedCommand(t, s.worker, command...)
		stopAPIServer(t, s.cp)
		runFinishedCommand(t, s.worker, command...)
	})
}

// TestInitSurvivesAPIServerRestarts kills the API server in each of the phases that call it. The
// kubelet waits up to 10 s before it restarts it again; by default, it would wait twice as long each
// time, and longer than any test if it restarts other components too.
func TestInitSurvivesAPIServerRestarts(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	writeFile(t, n, initConfigFile, nodes.InitConfig(nodes.Config{Address: n.Address(),
		Init:    "timeouts: {kubernetesAPICall: 3m}",
		Kubelet: "crashLoopBackOff: {maxContainerRestartPeriod: 10s}\n"}))
	read, out := io.Pipe()
	cmd := n.Command(kubeadm, "init", "--config", initConfigFile, "--upload-certs", "-v=1")
	cmd.Stdout = out
	p, err := cmd.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stops := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		phases := regexp.MustCompile(`^\[(upload-config|upload-certs|bootstrap-token|addon)\] `)
		seen := map[string]bool{}
		for scan := bufio.NewScanner(read); scan.Scan(); {
			m := phases.FindStringSubmatch(scan.Text())
			if m == nil || seen[m[1]] {
				continue
			}
			seen[m[1]] = true
			// There is no process while the kubelet restarts it.
			if _, err := n.Run(t.Context(), "sh", "-ec", killAPIServer); err == nil {
				stops++
			}
		}
	}()
	result, err := p.Wait()
	out.Close()
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	if stops == 0 {
		t.Error("the API server was never stopped")
	}
	t.Logf("init took %s with %s", result.Duration.Round(time.Second),
		fmt.Sprintf("%d restarts of its API server", stops))
	awaitAPI(t, n, "") // the last kill may have come after the end of init
	checkControlPlaneNode(t, n)
}
