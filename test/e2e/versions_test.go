//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// oldCluster is what v1beta3 says in other words than v1beta4.
const oldCluster = `apiServer:
  timeoutForControlPlane: 4m30s
  extraArgs:
    profiling: "false"
    audit-log-path: "-"
`

// inVersion is a file in another version of the configuration API.
func inVersion(version, text string) string {
	return strings.ReplaceAll(text, "kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/"+version)
}

// TestS005_FilesOfEveryVersionOfTheAPI makes a cluster by a file of v1beta3, joins a worker by another, and one by a file of the
// version that is not settled yet, once it is migrated. Files of v1beta4 are those of all other tests.
func TestS005_FilesOfEveryVersionOfTheAPI(t *testing.T) {
	t.Parallel()
	s := &site{Cluster: newCluster(t)}
	if err := s.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := add(t, s.Cluster, "worker2")
	old := inVersion("v1beta3", nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Cluster: oldCluster, Registration: "  kubeletExtraArgs: {node-labels: age=old}"}))
	initial, err := s.cp.Init(t.Context(), old, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.command, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	file := joinConfig(s.command[2], flagOf(t, s.command, "--token"), flagOf(t, s.command, "--discovery-token-ca-cert-hash"))
	joinByOld(t, s.worker, file)
	joinByNext(t, next, file)
	if err := settle(t.Context(), s.cp, 3); err != nil {
		t.Fatal(err)
	}
	spoken(t, s.cp)
}

// joinByOld joins by a file of v1beta3 as it is.
func joinByOld(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	file = strings.Replace(file, "discovery:\n", "discovery:\n  timeout: 2m\n", 1) + "  kubeletExtraArgs: {node-labels: age=old}\n"
	write(t, n, joinFile, inVersion("v1beta3", file))
	result, err := n.Run(t.Context(), ours, "join", "--config", joinFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(result.Stderr, "kubeadm config migrate") {
		t.Errorf("nobody is told to migrate the file: %s", result.Stderr)
	}
}

// joinByNext joins by a file of v1, which is refused until it is migrated.
func joinByNext(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	file += "  kubeletExtraArgs: [{name: node-labels, value: age=new, mergeMethod: ''}]\n"
	write(t, n, "/root/next.yaml", inVersion("v1", file))
	refused(t, n, []string{"kubeadm.k8s.io/v1,", "experimental"}, ours, "join", "--config", "/root/next.yaml")
	refused(t, n, []string{"--allow-experimental-api"}, ours, "config", "migrate", "--old-config", "/root/next.yaml", "--new-config", joinFile)
	run(t, n, ours, "config", "migrate", "--old-config", "/root/next.yaml", "--new-config", joinFile, "--allow-experimental-api")
	run(t, n, ours, "join", "--config", joinFile)
}

// spoken checks that what the files said came about.
func spoken(t *testing.T, cp *nodes.Node) {
	t.Helper()
	stored := kubectl(t, cp, "--namespace=kube-system", "get", "configmap", "kubeadm-config", "--output=jsonpath={.data.ClusterConfiguration}")
	if !strings.Contains(stored, "kubeadm.k8s.io/v1beta4") || !strings.Contains(stored, "- name: audit-log-path\n    value: '-'") {
		t.Errorf("the cluster keeps\n%s", stored)
	}
	// A kubelet tells of its static Pods a moment after its node is Ready.
	await(t, "an API server with the arguments", patience, func() error {
		command := kubectl(t, cp, "--namespace=kube-system", "get", "pods", "--selector=component=kube-apiserver", "--output=jsonpath={.items[*].spec.containers[0].command}")
		for _, want := range []string{`"--audit-log-path=-"`, `"--profiling=false"`} {
			if !strings.Contains(command, want) {
				return fmt.Errorf("%s was not given: %s", want, command)
			}
		}
		return nil
	})
	ages := kubectl(t, cp, "get", "nodes", "--sort-by=.metadata.name", `--output=jsonpath={.items[*].metadata.labels.age}`)
	if ages != "old old new" {
		t.Errorf("the labels of cp1, worker1 and worker2 are %q", ages)
	}
}
