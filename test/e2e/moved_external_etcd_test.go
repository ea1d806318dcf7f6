//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestMoveWithExternalEtcd gives control plane nodes of an external etcd another address and another name, killed in between:
// etcd has no member of them, and stays as it is.
func TestMoveWithExternalEtcd(t *testing.T) {
	inFullRun(t, "three minutes")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	members, err := s.AddAll(t.Context(), "etcd1")
	must(t, err)
	s.externalEtcd, err = nodes.StartEtcd(t.Context(), members...)
	must(t, err)
	must(t, s.createFirst(t.Context(), 2, 1, nodes.Config{}))
	must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
	must(t, s.joinNodes(t.Context(), s.workers...))
	must(t, awaitClusterReady(t.Context(), s.cp, 3))
	before := listEtcdMembers(t, s.cp)

	moved := s.controlPlanes[1]
	first := moved.Address()
	second, err := moved.AddAddress(t.Context())
	must(t, err)
	runAddress(t, moved, "change", second, "--dry-run")
	killAddressChange(t, moved, second, "manifests/kube-apiserver.yaml")
	checkFails(t, s.cp, []string{"the move of node " + moved.Name() + " to " + second + " is not complete",
		"kubeadm address change " + second}, reconfigureCommand("apply", "--set-arg=kube-scheduler:v=3")...)
	runAddress(t, moved, "change", second)
	must(t, moved.MoveTo(t.Context(), second))
	runCommand(t, moved, "ss", "--kill", "--tcp", "src", first) // or the API server uses them until it notices
	must(t, s.balancer.SetBackends(s.controlPlanes...))
	checkMovedServer(t, moved, first)
	runAddress(t, moved, "finish")
	must(t, parseOne(t, readFile(t, moved, certsDir+"apiserver.crt")).VerifyHostname(second))
	awaitAPI(t, moved, "/etcd")

	markNode(t, s.cp, "cp1")
	runNodeName(t, s.cp, "change", "cp9", "--dry-run")
	killNodeNameChange(t, s.cp, "remove the containers of Pod kube-apiserver", "cp9")
	if status := runCommand(t, s.cp, kubeadm, "node-name", "status"); !strings.Contains(status, "kubeadm node-name change cp9") {
		t.Errorf("the status is\n%s", status)
	}
	runNodeName(t, s.cp, "change", "cp9", "--yes")
	checkRenamed(t, s.cp, "cp1", "cp9")
	awaitAPI(t, s.cp, "/etcd")
	if after := listEtcdMembers(t, s.cp); len(after) != len(before) || after[0].Name != before[0].Name {
		t.Errorf("the members are %+v, but were %+v", after, before)
	}
	must(t, awaitClusterReady(t.Context(), s.cp, 3))
	runReconfigure(t, s.cp, "apply", "--set-arg=kube-scheduler:v=3")
	runReconfigure(t, moved, "node")
}
