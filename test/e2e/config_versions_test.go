//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// v1beta3Cluster has fields that are written differently in v1beta3 and v1beta4.
const v1beta3Cluster = `apiServer:
  timeoutForControlPlane: 4m30s
  extraArgs:
    profiling: "false"
    audit-log-path: "-"
`

// inVersion is a file in another version of the configuration API.
func inVersion(version, text string) string {
	return strings.ReplaceAll(text, "kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/"+version)
}

// TestConfigOfEveryAPIVersion creates a cluster with a file of v1beta3, joins a worker with
// another, and one with a migrated file of v1, which is experimental. All other tests use v1beta4.
func TestConfigOfEveryAPIVersion(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := addNode(t, s.Cluster, "worker2")
	old := inVersion("v1beta3",
		nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Cluster: v1beta3Cluster,
			Registration: "  kubeletExtraArgs: {node-labels: age=old}"}))
	initial, err := s.cp.Init(t.Context(), old, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	file := joinConfig(s.workerJoin[2], flagValue(t, s.workerJoin, "--token"),
		flagValue(t, s.workerJoin, "--discovery-token-ca-cert-hash"))
	joinByV1beta3(t, s.worker, file)
	joinByV1(t, next, file)
	if err := awaitClusterReady(t.Context(), s.cp, 3); err != nil {
		t.Fatal(err)
	}
	checkV1beta3Applied(t, s.cp)
}

// joinByV1beta3 joins by a file of v1beta3 as it is.
func joinByV1beta3(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	file = strings.Replace(file, "discovery:\n", "discovery:\n  timeout: 2m\n", 1) +
		"  kubeletExtraArgs: {node-labels: age=old}\n"
	writeFile(t, n, joinConfigFile, inVersion("v1beta3", file))
	result, err := n.Run(t.Context(), kubeadm, "join", "--config", joinConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(result.Stderr, "kubeadm config migrate") {
		t.Errorf("join does not say to migrate the file: %s", result.Stderr)
	}
}

// joinByV1 joins by a file of v1, which is refused until it is migrated.
func joinByV1(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	file += "  kubeletExtraArgs: [{name: node-labels, value: age=new, mergeMethod: ''}]\n"
	writeFile(t, n, "/root/next.yaml", inVersion("v1", file))
	checkFails(t, n, []string{"kubeadm.k8s.io/v1,", "experimental"}, kubeadm, "join", "--config",
		"/root/next.yaml")
	checkFails(t, n, []string{"--allow-experimental-api"}, kubeadm, "config", "migrate",
		"--old-config", "/root/next.yaml", "--new-config", joinConfigFile)
	runCommand(t, n, kubeadm, "config", "migrate", "--old-config", "/root/next.yaml",
		"--new-config", joinConfigFile, "--allow-experimental-api")
	runCommand(t, n, kubeadm, "join", "--config", joinConfigFile)
}

// checkV1beta3Applied checks that the settings of the files were applied.
func checkV1beta3Applied(t *testing.T, cp *nodes.Node) {
	t.Helper()
	stored := kubectl(t, cp, "--namespace=kube-system", "get", "configmap", "kubeadm-config",
		"--output=jsonpath={.data.ClusterConfiguration}")
	if !strings.Contains(stored, "kubeadm.k8s.io/v1beta4") ||
		!strings.Contains(stored, "- name: audit-log-path\n    value: '-'") {
		t.Errorf("the ConfigMap kubeadm-config holds\n%s", stored)
	}
	// A kubelet creates mirror Pods some time after its Node is Ready.
	await(t, "an API server with the arguments", waitLimit, func() error {
		command := kubectl(t, cp, "--namespace=kube-system", "get", "pods",
			"--selector=component=kube-apiserver",
			"--output=jsonpath={.items[*].spec.containers[0].command}")
		for _, want := range []string{`"--audit-log-path=-"`, `"--profiling=false"`} {
			if !strings.Contains(command, want) {
				return fmt.Errorf("the argument %s is missing: %s", want, command)
			}
		}
		return nil
	})
	ages := kubectl(t, cp, "get", "nodes", "--sort-by=.metadata.name",
		`--output=jsonpath={.items[*].metadata.labels.age}`)
	if ages != "old old new" {
		t.Errorf("the labels of cp1, worker1 and worker2 are %q", ages)
	}
}
