//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestNodeAddressFrom creates two control plane nodes whose default route is on the wrong network card:
// --node-address-from chooses the other one, by its name and by CIDR, for the API server, etcd and the kubelet.
func TestNodeAddressFrom(t *testing.T) {
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createNodes(t.Context(), 2, 0))
	for i, n := range s.controlPlanes {
		runShell(t, n, fmt.Sprintf(`set -e
			ip link add storage0 type veth peer name storage1
			ip link set storage1 up; ip link set storage0 up
			ip address add 198.51.100.%d/24 dev storage0
			ip route replace default via 198.51.100.1 dev storage0`, 10+i))
	}
	writeFile(t, s.cp, initConfigFile, nodes.InitConfig(nodes.Config{Address: "0.0.0.0",
		Endpoint: s.balancer.Endpoint()}))
	init := []string{kubeadm, "init", "--config", initConfigFile, "--upload-certs"}
	checkFails(t, s.cp, []string{`--node-address-from "eth7"`, "this machine has 198.51.100.10 (storage0)", "(eth0)"},
		append(init, "--node-address-from=eth7")...)
	output := runCommand(t, s.cp, append(init, "--node-address-from=eth0")...)
	var err error
	s.workerJoin, s.controlPlaneJoin, err = nodes.JoinCommands(output)
	must(t, err)
	runCommand(t, s.controlPlanes[1], controlPlaneJoinCommand(kubeadm, s, "--node-address-from=10.77.0.0/24")...)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	for _, n := range s.controlPlanes {
		for component, want := range map[string]string{"kube-apiserver": "--advertise-address=" + n.Address() + " ",
			"etcd": "--advertise-client-urls=https://" + n.Address() + ":2379 "} {
			if got := commandLine(t, n, component); !strings.Contains(got, want) {
				t.Errorf("%s of %s runs as %s", component, n.Name(), got)
			}
		}
		if got := kubectl(t, s.cp, "get", "node", n.Name(),
			`--output=jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`); got != n.Address() {
			t.Errorf("the address of %s is %s", n.Name(), got)
		}
	}
	// A virtual address on the same card came later: a re-run of the finished command knows which one it was.
	runShell(t, s.cp, "ip address add 10.77.0.250/32 dev eth0")
	runCommand(t, s.cp, append(init, "--node-address-from=eth0")...)
}
