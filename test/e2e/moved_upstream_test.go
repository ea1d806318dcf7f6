//go:build e2e

package e2e

import (
	"net"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// upstreamJoin returns a command that upstream's kubeadm prints for joining a node to a cluster, of a worker or, with a
// certificate key, of a control plane node. It joins with a program.
func upstreamJoin(t *testing.T, cp *nodes.Node, program string, key ...string) []string {
	t.Helper()
	flags := []string{"--print-join-command"}
	if len(key) > 0 {
		runCommand(t, cp, upstreamKubeadm, "init", "phase", "upload-certs", "--upload-certs", "--certificate-key", key[0])
		flags = append(flags, "--certificate-key", key[0])
	}
	said := createToken(t, cp, upstreamKubeadm, flags...)
	command := strings.Fields(lastLines(said.Stdout, 1)[0])
	command[0] = program
	return append(command, "--ignore-preflight-errors="+nodes.IgnoredPreflight)
}

// TestMoveUpstreamCluster moves a cluster of the older release that upstream's kubeadm has created: both control plane nodes to
// other addresses, and the cluster to another endpoint. Upstream's kubeadm then joins a worker, upgrades all nodes, renews the
// certificates of one that has moved, joins a control plane node and resets one that has moved.
func TestMoveUpstreamCluster(t *testing.T) {
	inFullRun(t, "ten minutes")
	parallel(t)
	older := olderUpstreamKubeadm(t)
	s := newOlderHAClusterOf(t, older, 2, 1)
	before := map[*nodes.Node]string{}
	for _, n := range s.controlPlanes {
		before[n] = n.Address()
		second, err := n.AddAddress(t.Context())
		must(t, err)
		runAddress(t, n, "change", second)
		must(t, n.MoveTo(t.Context(), second))
		runCommand(t, n, "ss", "--kill", "--tcp", "src", before[n]) // or etcd uses them until it notices
		must(t, s.balancer.SetBackends(s.controlPlanes...))
		checkMovedPlane(t, n, before[n])
		checkVotingMembers(t, s.controlPlanes...)
	}
	host, _, err := net.SplitHostPort(s.balancer.Endpoint())
	must(t, err)
	must(t, s.SetNameAt(newEndpointName, host))
	const endpoint = newEndpointName + ":6443"
	second := s.controlPlanes[1]
	checkFails(t, s.cp, []string{second.Name() + ": the certificate of its API server lacks " + newEndpointName},
		endpointCommand("change", endpoint)...)
	runReconfigure(t, second, "node")
	runEndpoint(t, s.cp, "change", endpoint)
	runReconfigure(t, second, "node")
	runReconfigure(t, s.worker, "node")
	runEndpoint(t, s.cp, "finish")
	runReconfigure(t, second, "node")
	for _, n := range s.controlPlanes {
		runAddress(t, n, "finish")
	}
	must(t, awaitClusterReady(t.Context(), s.cp, 3))

	guest := addNode(t, s.Cluster, "guest")
	useOlder(t, guest)
	join := upstreamJoin(t, s.cp, older)
	if join[2] != endpoint {
		t.Errorf("upstream's kubeadm joins by %q", join)
	}
	runCommand(t, guest, join...)
	must(t, awaitClusterReady(t.Context(), s.cp, 4))
	runCommand(t, s.cp, append([]string{upstreamKubeadm}, upgradeCommand(upgradeTarget)[1:]...)...)
	for _, n := range []*nodes.Node{second, s.worker, guest} {
		runCommand(t, n, append([]string{upstreamKubeadm}, upgradeNodeCommand()[1:]...)...)
	}
	runCommand(t, second, upstreamKubeadm, "certs", "renew", "all")
	for _, n := range s.controlPlanes {
		checkRunningVersion(t, n, upgradeTarget)
		checkMovedPlane(t, n, before[n])
		cert := parseOne(t, readFile(t, n, certsDir+"apiserver.crt"))
		if cert.VerifyHostname(newEndpointName) != nil || cert.VerifyHostname(before[n]) == nil {
			t.Errorf("the certificate of %s is for %v %v", n.Name(), cert.DNSNames, cert.IPAddresses)
		}
	}
	checkVotingMembers(t, s.controlPlanes...)
	checkEndpoint(t, s.cp, "https://"+endpoint, map[*nodes.Node][]string{s.cp: {"admin.conf"}, second: {"admin.conf"},
		s.worker: {"kubelet.conf"}, guest: {"kubelet.conf"}})

	third := addNode(t, s.Cluster, "cp3")
	runCommand(t, third, upstreamJoin(t, s.cp, upstreamKubeadm, strings.Repeat("0a1b", 16))...)
	setControlPlanes(t, s, s.cp, second, third)
	checkVotingMembers(t, s.controlPlanes...)
	checkEndpoint(t, s.cp, "https://"+endpoint, map[*nodes.Node][]string{third: {"admin.conf"}})
	must(t, awaitClusterReady(t.Context(), s.cp, 5))
	resetAndDestroy(t, s, upstreamKubeadm, second)
	must(t, awaitClusterReady(t.Context(), s.cp, 4))
}
