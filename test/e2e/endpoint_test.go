//go:build e2e

package e2e

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// newEndpointName is a DNS name that the tests of this file make lead to API servers.
const newEndpointName = "api.example.com"

func endpointCommand(sub string, more ...string) []string {
	return append([]string{kubeadm, "endpoint", sub, "--yes", "--ignore-preflight-errors=" + nodes.IgnoredPreflight},
		more...)
}

// runEndpoint runs a subcommand of "kubeadm endpoint" that changes something, and logs how long it took.
func runEndpoint(t *testing.T, n *nodes.Node, sub string, more ...string) string {
	t.Helper()
	result, err := n.Run(t.Context(), endpointCommand(sub, more...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, result.Stdout)
	}
	t.Logf("%s: endpoint %s %s in %s", n.Name(), sub, strings.Join(more, " "),
		result.Duration.Round(10*time.Millisecond))
	return result.Stdout
}

// checkEndpoint checks that the places of the cluster, and those files of nodes, have the endpoint.
func checkEndpoint(t *testing.T, cp *nodes.Node, server string, files map[*nodes.Node][]string) {
	t.Helper()
	places := map[string]string{
		"cluster-info": kubectl(t, cp, "get", "configmap", "cluster-info", "--namespace=kube-public",
			"--output=jsonpath={.data.kubeconfig}"),
		"kube-proxy": kubectl(t, cp, "get", "configmap", "kube-proxy", "--namespace=kube-system",
			`--output=jsonpath={.data.kubeconfig\.conf}`),
	}
	for n, names := range files {
		for _, name := range names {
			places[n.Name()+":"+name] = readFile(t, n, "/etc/kubernetes/"+name)
		}
	}
	for place, text := range places {
		if !strings.Contains(text, "server: "+server+"\n") {
			t.Errorf("%s lacks %s:\n%s", place, server, text)
		}
	}
}

// TestChangeEndpoint moves a cluster of three control planes and two workers from the address of its load
// balancer to a name, under a client of the old endpoint: no request fails before the change is finished. A
// third worker joins in between through the old endpoint.
func TestChangeEndpoint(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	r := newRotatedCluster(t, 3, 2)
	host, _, err := net.SplitHostPort(r.balancer.Endpoint())
	must(t, err)
	must(t, r.SetNameAt(newEndpointName, host))
	const endpoint = newEndpointName + ":6443"
	checkFails(t, r.cp, []string{"cp2: the certificate of its API server lacks " + newEndpointName, "cp3: ",
		"kubeadm reconfigure node"}, endpointCommand("change", endpoint)...)
	for _, n := range r.controlPlanes[1:] {
		runReconfigure(t, n, "node")
	}
	checkEndpoint(t, r.cp, "https://"+r.balancer.Endpoint(), map[*nodes.Node][]string{r.cp: {"admin.conf"}})
	runEndpoint(t, r.cp, "change", endpoint)
	checkFails(t, r.cp, []string{"worker1", "worker2", "reconfigure node"}, endpointCommand("finish")...)
	late := addNode(t, r.Cluster, "late")
	_, err = late.Join(t.Context(), slices.Clone(r.workerJoin), io.Discard)
	must(t, err)
	for _, n := range slices.Concat(r.controlPlanes[1:], r.workers, []*nodes.Node{late}) {
		runReconfigure(t, n, "node")
	}
	checkEndpoint(t, r.cp, "https://"+endpoint, map[*nodes.Node][]string{
		r.controlPlanes[0]: {"admin.conf", "super-admin.conf"}, r.controlPlanes[1]: {"admin.conf"},
		r.controlPlanes[2]: {"admin.conf"}, r.workers[0]: {"kubelet.conf"}, r.workers[1]: {"kubelet.conf"},
		late: {"kubelet.conf"}})
	r.endLoad(t)
	runEndpoint(t, r.cp, "finish")
	for _, n := range r.controlPlanes[1:] {
		runReconfigure(t, n, "node")
	}
	for _, n := range r.controlPlanes {
		cert := parseOne(t, readFile(t, n, certsDir+"apiserver.crt"))
		if cert.VerifyHostname(newEndpointName) != nil || cert.VerifyHostname(host) == nil {
			t.Errorf("the certificate of %s is valid for %v %v", n.Name(), cert.DNSNames, cert.IPAddresses)
		}
	}
	must(t, awaitClusterReady(t.Context(), r.cp, 6))
}

// TestEndpointIsGivenAfterwards gives a cluster of one control plane and a worker an endpoint. What does not
// lead to its API server is refused. The command is killed and resumed, and the power cut; it is taken back and done
// again. A control plane joins once the worker has followed.
func TestEndpointIsGivenAfterwards(t *testing.T) {
	inFullRun(t, "three minutes")
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	cp, worker := s.cp, s.worker
	bare, endpoint := "https://"+cp.Address()+":6443", newEndpointName+":6443"
	checkFails(t, cp, []string{endpoint, "does not lead to an API server"}, endpointCommand("change", endpoint)...)
	must(t, s.SetName(newEndpointName, worker))
	checkFails(t, cp, []string{endpoint, "does not lead to an API server"}, endpointCommand("change", endpoint)...)
	must(t, s.SetName(newEndpointName, cp))
	_, killed := runInterrupted(t, cp, unix.SIGKILL, func(line string) bool {
		change, _ := doneChange(line)
		return strings.Contains(change, "admin.conf")
	}, endpointCommand("change", endpoint, "-v=1")...)
	if !killed {
		t.Error("the command was not killed")
	}
	must(t, cp.Kill(t.Context()))
	must(t, cp.Boot(t.Context()))
	awaitAPI(t, cp, "")
	runReconfigure(t, cp, "undo")
	checkEndpoint(t, cp, bare, map[*nodes.Node][]string{cp: {"admin.conf"}, worker: {"kubelet.conf"}})
	runEndpoint(t, cp, "finish") // which forgets the change that was undone
	runEndpoint(t, cp, "change", endpoint)
	guest := addNode(t, s.Cluster, "guest")
	join := createToken(t, cp, kubeadm, "--print-join-command", "--upload-certs")
	plane := append(strings.Fields(lastLines(join.Stdout, 1)[0]), "--ignore-preflight-errors="+nodes.IgnoredPreflight)
	checkFails(t, guest, []string{"no control plane node can be added yet", worker.Name()}, plane...)
	runReconfigure(t, worker, "node")
	checkEndpoint(t, cp, "https://"+endpoint, map[*nodes.Node][]string{cp: {"admin.conf"}, worker: {"kubelet.conf"}})
	runCommand(t, guest, plane...)
	must(t, awaitClusterReady(t.Context(), cp, 3))
	checkFails(t, cp, []string{guest.Name(), "reconfigure node"}, endpointCommand("finish")...)
	runReconfigure(t, guest, "node")
	runEndpoint(t, cp, "finish")
	checkFollow(t, cp, worker, endpoint)
	if status := runCommand(t, cp, kubeadm, "endpoint", "status"); !strings.Contains(status, "Endpoint: "+endpoint) ||
		!strings.Contains(status, "No change of it is unfinished") {
		t.Errorf("the status is\n%s", status)
	}
	must(t, awaitClusterReady(t.Context(), cp, 3))
}

// checkFollow leads a worker, whose kubelet uses an endpoint that is gone, to that of the cluster by asking a
// control plane node, after it has been killed in between.
func checkFollow(t *testing.T, cp, worker *nodes.Node, endpoint string) {
	t.Helper()
	const file = "/etc/kubernetes/kubelet.conf"
	runShell(t, worker, "sed -i 's|server: .*|server: https://192.0.2.99:6443|' "+file+" && systemctl restart kubelet")
	if said := runShell(t, worker, kubeadm+" doctor || true"); !strings.Contains(said, "kubeadm endpoint follow") {
		t.Errorf("the doctor does not name the command:\n%s", said)
	}
	follow := []string{kubeadm, "endpoint", "follow", cp.Address(), "--ignore-preflight-errors=" + nodes.IgnoredPreflight}
	if _, killed := runInterrupted(t, worker, unix.SIGKILL, func(line string) bool {
		change, _ := doneChange(line)
		return strings.Contains(change, "kubelet.conf")
	}, append(slices.Clone(follow), "-v=1")...); !killed {
		t.Error("the command was not killed")
	}
	runCommand(t, worker, follow...)
	if got := readFile(t, worker, file); !strings.Contains(got, "server: https://"+endpoint+"\n") {
		t.Errorf("the kubelet connects to\n%s", got)
	}
}
