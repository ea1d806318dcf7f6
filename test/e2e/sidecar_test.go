//go:build e2e

package e2e

import (
	"fmt"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/test/nodes"
)

// writeSidecarPatches writes patches that add a container of the pause image to every component of
// a node: after it by strategic merge patches, before it by JSON patches.
func writeSidecarPatches(t *testing.T, n *nodes.Node) {
	t.Helper()
	image := runShell(t, n,
		kubeadm+" config images list --kubernetes-version v1.37.1 | grep /pause:")
	for _, component := range []string{"etcd", "kube-apiserver"} {
		writeFile(t, n, path.Join(patchDir, component+".yaml"),
			fmt.Sprintf("spec: {containers: [{name: sidecar, image: %s}]}\n", image))
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		writeFile(t, n, path.Join(patchDir, component+"+json.yaml"), fmt.Sprintf(
			"- {op: add, path: /spec/containers/0, value: {name: sidecar, image: %s, args: [--secure-port=1]}}\n", image))
	}
}

// TestSidecarsInStaticPods patches a sidecar into each static Pod of two control planes, and resets
// the second.
func TestSidecarsInStaticPods(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createNodes(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes {
		writeSidecarPatches(t, n)
	}
	if err := s.initFirst(t.Context(),
		nodes.Config{Init: "patches:\n  directory: " + patchDir}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.cp.Run(t.Context(), kubeadm, "init", "--config", initConfigFile,
		"--upload-certs"); err != nil {
		t.Errorf("running init again: %v", err)
	}
	runCommand(t, s.controlPlanes[1], controlPlaneJoinCommand(kubeadm, s, "--patches", patchDir)...)
	for _, n := range s.controlPlanes {
		for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager",
			"kube-scheduler"} {
			await(t, component+" of "+n.Name()+" with its sidecar", waitLimit, func() error {
				out, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "get", "pod",
					component+"-"+n.Name())
				if err != nil {
					return fmt.Errorf("%w: %s", err, out.Stderr)
				}
				pod := readObject[corev1.Pod](t, s.cp, "--namespace=kube-system", "pod",
					component+"-"+n.Name())
				if got := len(pod.Spec.Containers); got != 2 {
					return fmt.Errorf("it has %d containers", got)
				}
				for _, c := range pod.Status.ContainerStatuses {
					if !c.Ready {
						return fmt.Errorf("container %s is not ready", c.Name)
					}
				}
				return nil
			})
		}
	}
	runCommand(t, s.controlPlanes[1], kubeadm, "reset", "--force")
	if left := listMembers(t, s.cp); len(left) != 1 {
		t.Errorf("after the second control plane's reset etcd has the members %v", left)
	}
}
