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

func addressCommand(sub string, more ...string) []string {
	return append([]string{kubeadm, "address", sub, "--yes", "--ignore-preflight-errors=" + nodes.IgnoredPreflight}, more...)
}

// runAddress runs a subcommand of "kubeadm address" that changes something, and logs how long it took.
func runAddress(t *testing.T, n *nodes.Node, sub string, more ...string) string {
	t.Helper()
	result, err := n.Run(t.Context(), addressCommand(sub, more...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, result.Stdout)
	}
	t.Logf("%s: address %s %s in %s\n%s", n.Name(), sub, strings.Join(more, " "),
		result.Duration.Round(10*time.Millisecond), result.Stdout)
	return result.Stdout
}

// killAddressChange kills a change of the address once a change is made whose description has a text.
func killAddressChange(t *testing.T, n *nodes.Node, address, text string) {
	t.Helper()
	if _, killed := runInterrupted(t, n, unix.SIGKILL, func(line string) bool {
		change, _ := doneChange(line)
		return strings.Contains(change, text)
	}, addressCommand("change", address, "-v=1")...); !killed {
		t.Errorf("the command was not killed after %q", text)
	}
}

// checkNodeAddress checks the address that a Node reports.
func checkNodeAddress(t *testing.T, cp *nodes.Node, name, want string) {
	t.Helper()
	await(t, "the address of "+name, waitLimit, func() error {
		got, err := cp.Kubectl(t.Context(), "get", "node", name,
			`--output=jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
		if err == nil && got.Stdout != want {
			err = fmt.Errorf("it is %s, but should be %s", got.Stdout, want)
		}
		return err
	})
}

// checkMovedPlane checks that nothing on a control plane node has its previous address but the certificates.
func checkMovedPlane(t *testing.T, n *nodes.Node, before string) {
	t.Helper()
	checkMovedServer(t, n, before)
	for _, base := range []string{"etcd/server", "etcd/peer"} {
		must(t, parseOne(t, readFile(t, n, certsDir+base+".crt")).VerifyHostname(n.Address()))
	}
}

// checkMovedServer is checkMovedPlane for a node without an etcd member.
func checkMovedServer(t *testing.T, n *nodes.Node, before string) {
	t.Helper()
	if found := runShell(t, n, "grep -rlwF "+before+" /etc/kubernetes/manifests /etc/kubernetes/*.conf "+
		"/var/lib/kubelet/kubeadm-flags.env || true"); found != "" {
		t.Errorf("%s still has %s in\n%s", n.Name(), before, found)
	}
	must(t, parseOne(t, readFile(t, n, certsDir+"apiserver.crt")).VerifyHostname(n.Address()))
}

// TestChangeAddressOfWorker gives a worker another address: it is gone afterwards, where the kubelet follows by itself;
// and prepared, where it is told. What cannot be the address is refused.
func TestChangeAddressOfWorker(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	must(t, awaitClusterReady(t.Context(), s.cp, 2)) // so that kube-proxy reports the first address
	worker, first := s.worker, s.worker.Address()
	kubectl(t, s.cp, "rollout", "status", "--namespace=kube-system", "daemonset/kube-proxy", "--timeout=2m")
	checkFails(t, worker, []string{"192.0.2.99", "matches no address", first}, addressCommand("change", "192.0.2.99")...)
	second, err := worker.AddAddress(t.Context())
	must(t, err)
	runAddress(t, worker, "change", second, "--dry-run")
	checkNodeAddress(t, s.cp, worker.Name(), first)
	killAddressChange(t, worker, second, "kubeadm-flags.env")
	said := runAddress(t, worker, "change", second)
	if !strings.Contains(said, "kubectl delete pod --namespace kube-system kube-proxy-") {
		t.Errorf("it does not name kube-proxy:\n%s", said)
	}
	checkNodeAddress(t, s.cp, worker.Name(), second)
	must(t, worker.MoveTo(t.Context(), second))
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	if said := runAddress(t, worker, "change"); !strings.Contains(said, "there is nothing to do") {
		t.Errorf("the same command says\n%s", said)
	}
	for line := range strings.Lines(said) {
		if command := strings.TrimSpace(line); strings.HasPrefix(command, "kubectl delete pod ") {
			runShell(t, s.cp, command+" --kubeconfig /etc/kubernetes/admin.conf")
		}
	}
	await(t, "Pods with the new address", waitLimit, func() error {
		status, err := worker.Run(t.Context(), kubeadm, "address", "status")
		if err == nil && strings.Contains(status.Stdout, "report another address") {
			err = fmt.Errorf("the status is\n%s", status.Stdout)
		}
		return err
	})
	// The kubelet is told its address; the previous one is gone when the command runs.
	third := first
	must(t, worker.MoveTo(t.Context(), third))
	runAddress(t, worker, "change", third)
	checkNodeAddress(t, s.cp, worker.Name(), third)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
}

// balance makes these nodes the only backends of the load balancer, and waits until the client has no request in progress
// at another one: an address that is taken away cuts the connections to it.
func (r *rotatedCluster) balance(t *testing.T, backends ...*nodes.Node) {
	t.Helper()
	must(t, r.balancer.SetBackends(backends...))
	r.load.awaitRequest()
}

// TestChangeAddressHA gives two of three control planes and a worker other addresses, under a client of the load balancer: one
// control plane before the previous address is gone, with the way back, the others afterwards. No request fails, as the load
// balancer leaves each address before it is gone, and an API server that exits serves until the load balancer has seen it.
func TestChangeAddressHA(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	r := newRotatedClusterOf(t, 3, 2, nodes.Config{
		Cluster: "apiServer:\n  extraArgs:\n  - {name: shutdown-delay-duration, value: 5s}\n"})
	prepared, after := r.controlPlanes[1], r.controlPlanes[2]
	first := prepared.Address()
	second, err := prepared.AddAddress(t.Context())
	must(t, err)
	killAddressChange(t, prepared, second, "manifests/etcd.yaml")
	runAddress(t, prepared, "change", second)
	runAddress(t, prepared, "change", first) // the way back
	runAddress(t, prepared, "change", second)
	r.balance(t, r.cp, after)
	must(t, prepared.MoveTo(t.Context(), second))
	runCommand(t, prepared, "ss", "--kill", "--tcp", "src", first) // or etcd uses them until it notices
	r.balance(t, r.controlPlanes...)
	checkMovedPlane(t, prepared, first)
	checkVotingMembers(t, r.controlPlanes...)
	r.load.endStep(t, "a control plane node moves, before its previous address is gone")

	gone := after.Address()
	second, err = after.AddAddress(t.Context())
	must(t, err)
	r.balance(t, r.controlPlanes[:2]...)
	must(t, after.MoveTo(t.Context(), second))
	if said := runShell(t, after, kubeadm+" doctor || true"); !strings.Contains(said, "kubeadm address change") {
		t.Errorf("the doctor does not name the command:\n%s", said)
	}
	killAddressChange(t, after, second, "etcd.yaml")
	runAddress(t, after, "change", second)
	r.balance(t, r.controlPlanes...)
	checkMovedPlane(t, after, gone)
	checkVotingMembers(t, r.controlPlanes...)
	r.load.endStep(t, "a control plane node moves, after its previous address is gone")
	worker := r.workers[1] // the client runs on the other one
	moved, err := worker.AddAddress(t.Context())
	must(t, err)
	must(t, worker.MoveTo(t.Context(), moved))
	runAddress(t, worker, "change", moved)
	checkNodeAddress(t, r.cp, worker.Name(), moved)
	must(t, awaitClusterReady(t.Context(), r.cp, 5))
	r.load.endStep(t, "a worker moves")
	r.endLoad(t)
	for n, before := range map[*nodes.Node]string{prepared: first, after: gone} {
		checkNodeAddress(t, r.cp, n.Name(), n.Address())
		runAddress(t, n, "finish")
		cert := parseOne(t, readFile(t, n, certsDir+"etcd/peer.crt"))
		if cert.VerifyHostname(before) == nil {
			t.Errorf("the certificate of %s is still valid for %s", n.Name(), before)
		}
	}
	checkVotingMembers(t, r.controlPlanes...)
}

// TestChangeAddressOfOnlyControlPlane gives the only control plane of a cluster without an endpoint another address,
// which it has alone, and a worker follows. The command is killed, and the power cut. A client that writes through a load
// balancer shows for how long the API server does not answer; nothing that it has written is lost.
func TestChangeAddressOfOnlyControlPlane(t *testing.T) {
	inFullRun(t, "four minutes")
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	must(t, s.addNodes(t.Context()))
	must(t, s.initAndJoin(t.Context()))
	cp, before := s.cp, s.cp.Address()
	balancer, err := s.StartBalancer(t.Context())
	must(t, err)
	must(t, balancer.SetBackends(cp))
	client := startBalancedLoad(t, balancer, cp, s.worker)
	t.Cleanup(client.stop)
	move := func(address string) {
		must(t, cp.MoveTo(t.Context(), address))
		must(t, balancer.SetBackends(cp))
	}
	second, err := cp.AddAddress(t.Context())
	must(t, err)
	move(second)
	must(t, cp.Kill(t.Context()))
	must(t, cp.Boot(t.Context()))
	killAddressChange(t, cp, second, "etcd.yaml")
	must(t, cp.Kill(t.Context()))
	must(t, cp.Boot(t.Context()))
	said := runAddress(t, cp, "change", second)
	for _, want := range []string{"kubeadm endpoint change " + second + ":6443", "kubeadm endpoint follow " + second + ":6443"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	checkMovedPlane(t, cp, before)
	checkVotingMembers(t, cp)
	client.endStep(t, "the control plane node moves, with two power cuts")
	checkFails(t, cp, []string{"still reach the cluster at https://" + before + ":6443", "kubeadm endpoint change"},
		addressCommand("finish")...)
	await(t, "the worker to be known as lost", waitLimit, func() error { // otherwise kube-proxy's roll-out waits for it
		ready, err := cp.Kubectl(t.Context(), "get", "node", s.worker.Name(),
			`--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready.Stdout == "True" {
			leader, _ := cp.Kubectl(t.Context(), "get", "lease", "--namespace=kube-system", "kube-controller-manager",
				"--output=jsonpath={.spec.holderIdentity} since {.spec.acquireTime}, renewed {.spec.renewTime}")
			err = fmt.Errorf("it counts as ready; kube-controller-manager: %s", leader.Stdout)
		}
		return err
	})
	runEndpoint(t, cp, "change", second+":6443")
	if status := runCommand(t, cp, kubeadm, "endpoint", "status"); !strings.Contains(status, s.worker.Name()) {
		t.Errorf("the status does not name the worker:\n%s", status)
	}
	runCommand(t, s.worker, kubeadm, "endpoint", "follow", second+":6443",
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	runReconfigure(t, s.worker, "node")
	must(t, awaitClusterReady(t.Context(), cp, 2))
	runEndpoint(t, cp, "finish")
	runAddress(t, cp, "finish")
	checkNodeAddress(t, cp, cp.Name(), second)
	must(t, awaitClusterReady(t.Context(), cp, 2))
	// There is no other API server for a request that this one refuses: one that is only busy fails the test too.
	client.endStepWithoutFailure(t, "the endpoint changes, and the worker follows")
	// Without a restart of the machine etcd runs on when its address is gone.
	move(before)
	runAddress(t, cp, "change", before)
	checkMovedPlane(t, cp, second)
	checkVotingMembers(t, cp)
	client.endStep(t, "the control plane node moves, after its previous address is gone")
	_, err = cp.AddAddress(t.Context())
	must(t, err)
	runAddress(t, cp, "change", second)
	move(second)
	checkMovedPlane(t, cp, before)
	checkVotingMembers(t, cp)
	client.endStep(t, "the control plane node moves, before its previous address is gone")
	client.end(t, cp)
}
