package cri

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

const containerd = "unix:///var/run/containerd/containerd.sock"

// TestContainersOnNode runs containers in a real containerd and removes them.
func TestContainersOnNode(t *testing.T) {
	if os.Getenv("KUBEADM_TEST_NODE") != "1" {
		t.Skip("it removes all Pods of the machine: KUBEADM_TEST_NODE=1 says that it may")
	}
	c, err := connect(t.Context(), containerd, connectLimit)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, name := range []string{"one", "two"} {
		runPod(t, c, name, runtimeapi.NamespaceMode_NODE)
	}
	addNetwork(t, c)
	runPod(t, c, "three", runtimeapi.NamespaceMode_POD)
	r := Runtimes{Tail: func(path string, _ int64) ([]byte, error) { return os.ReadFile(path) }}
	one := waitForExit(t, r)
	if one.Pod != "one" || one.Namespace != "contract" || one.Name != "pause" ||
		one.ExitCode != 0 || one.Log == "" {
		t.Errorf("got %+v, want an exited container that printed its version", one)
	}
	networks, err := r.SandboxNetworks(t.Context(), containerd)
	files := slices.Collect(maps.Values(networks))
	if err != nil || len(files) != 1 || !strings.HasPrefix(files[0], "/run/netns/cni-") {
		t.Fatalf("network namespaces: %v, %v; want that of Pod three", networks, err)
	}
	if _, err := os.Stat(files[0]); err != nil {
		t.Error(err)
	}
	if err := r.Do(t.Context(), change.RemoveContainers{Socket: containerd}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(files[0]); err == nil {
		t.Errorf("%s is left", files[0])
	}
	if left, err := r.Sandboxes(t.Context(), containerd); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := r.Do(t.Context(),
		change.PullImage{Socket: containerd, Ref: "127.0.0.1:1/none:1"}); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("pulling from a registry that does not exist: %v", err)
	}
}

// addNetwork configures a network for Pods until the end of the test.
func addNetwork(t *testing.T, c *client) {
	t.Helper()
	const file = "/etc/cni/net.d/10-contract.conflist"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	if err := os.WriteFile(file, []byte(`{"cniVersion": "1.0.0", "name": "contract", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "subnet": "198.51.100.0/24"}}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 200 { // containerd watches the directory
		status, err := c.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err == nil && slices.ContainsFunc(status.Status.Conditions, func(c *runtimeapi.RuntimeCondition) bool {
			return c.Type == runtimeapi.NetworkReady && c.Status
		}) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the container runtime does not use " + file)
}

// runPod starts a Pod with a container that prints the version of pause and exits.
func runPod(t *testing.T, c *client, name string, network runtimeapi.NamespaceMode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.Command("ctr", "--namespace", "k8s.io", "images", "ls", "-q").Output()
	if err != nil {
		t.Fatal(err)
	}
	var image string
	for ref := range strings.FieldsSeq(string(out)) {
		if strings.Contains(ref, "/pause:") {
			image = ref
		}
	}
	labels := map[string]string{"io.kubernetes.pod.name": name,
		"io.kubernetes.pod.namespace": "contract"}
	logs := filepath.Join(t.TempDir(), name)
	pod := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "contract", Uid: name},
		LogDirectory: logs, Labels: labels,
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/contract",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: network}}},
	}
	sandbox, err := c.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: pod})
	if err != nil {
		t.Fatal(err)
	}
	container, err := c.CreateContainer(ctx,
		&runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: pod,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "pause"},
				Image:    &runtimeapi.ImageSpec{Image: image},
				Args:     []string{"-v"}, LogPath: "0.log", Labels: labels,
				Linux: &runtimeapi.LinuxContainerConfig{},
			}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartContainer(ctx,
		&runtimeapi.StartContainerRequest{ContainerId: container.ContainerId}); err != nil {
		t.Fatal(err)
	}
}

// waitForExit returns the oldest container once it has exited.
func waitForExit(t *testing.T, r Runtimes) state.Container {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all, err := r.Containers(t.Context(), containerd)
		if err != nil || len(all) != 3 {
			t.Fatalf("got %+v and %v, want three containers", all, err)
		}
		if !all[0].Running && all[0].Log != "" {
			return all[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has not exited: %+v", all[0])
		}
	}
}
