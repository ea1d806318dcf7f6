//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

// olderVersion returns the Kubernetes version of the older bundle.
func olderVersion(t *testing.T) string {
	t.Helper()
	version, err := nodes.ReleaseOf(suite.older)
	must(t, err)
	return version
}

// newOlderCluster is newCluster with nodes that have the older release too.
func newOlderCluster(t *testing.T) *nodes.Cluster {
	t.Helper()
	o := testOptions(t)
	o.Older = []string{suite.older}
	return newClusterOf(t, o)
}

// useOlder replaces the kubelet and kubectl of nodes by those of the older release.
func useOlder(t *testing.T, all ...*nodes.Node) {
	t.Helper()
	for _, n := range all {
		must(t, n.UseRelease(t.Context(), olderVersion(t)))
	}
}

// TestPreviousMinorIsDeployed creates a cluster of the minor before kubeadm's own, control plane
// and kubelets.
func TestPreviousMinorIsDeployed(t *testing.T) {
	parallel(t)
	s := &testCluster{Cluster: newOlderCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	older := olderVersion(t)
	// A kubelet newer than the API server fails the preflight checks.
	writeFile(t, s.cp, initConfigFile,
		nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Version: older}))
	checkFails(t, s.cp, []string{"KubeletVersion", strings.TrimPrefix(older, "v")}, kubeadm, "init",
		"--config", initConfigFile)
	useOlder(t, s.cp, s.worker)
	initial, err := s.cp.Init(t.Context(),
		nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Version: older}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	runCommand(t, s.worker, workerJoinCommand(kubeadm, s)...)
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}
	checkControlPlaneNode(t, s.cp)
	if got := kubectl(t, s.cp, "version", "--output=json"); strings.Count(got,
		`"gitVersion": "`+older+`"`) != 2 {
		t.Errorf("want kubectl and the API server at %s, got:\n%s", older, got)
	}
	for _, n := range readObject[corev1.NodeList](t, s.cp, "nodes").Items {
		if got := n.Status.NodeInfo.KubeletVersion; got != older {
			t.Errorf("the kubelet of %s is %s, want %s", n.Name, got, older)
		}
	}
	// A kubelet creates mirror Pods some time after its Node is Ready.
	await(t, "Pods of "+older, waitLimit, func() error {
		images := kubectl(t, s.cp, "--namespace=kube-system", "get", "pods",
			"--output=jsonpath={.items[*].spec.containers[*].image}")
		for _, want := range []string{"kube-apiserver:" + older, "kube-controller-manager:" + older,
			"kube-scheduler:" + older, "kube-proxy:" + older} {
			if !strings.Contains(images, want) {
				return fmt.Errorf("no Pod runs %s: %s", want, images)
			}
		}
		return nil
	})
	runCommand(t, s.worker, kubeadm, "reset", "--force")
	runCommand(t, s.cp, kubeadm, "reset", "--force")
}

// TestOlderKubeletJoins joins a node whose kubelet is a minor behind the control plane.
func TestOlderKubeletJoins(t *testing.T) {
	inFullRun(t, "a minute") // by default TestPreviousMinorIsDeployed
	parallel(t)
	s := &testCluster{Cluster: newOlderCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	useOlder(t, s.worker)
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := kubectl(t, s.cp, "get", "node", "worker1",
		"--output=jsonpath={.status.nodeInfo.kubeletVersion}"), olderVersion(t); got != want {
		t.Errorf("the worker's kubelet is %s, want %s", got, want)
	}
}
