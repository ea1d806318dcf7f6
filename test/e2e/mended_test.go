//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// TestInitResumesWithOtherArguments stops init again and again when its API server runs, each time in another phase, and goes on
// with other arguments of the control plane. The kubelet puts another API server in the place of the one that runs: what
// comes after the wait must speak to that one.
func TestInitResumesWithOtherArguments(t *testing.T) {
	t.Parallel()
	n := addNode(t, newCluster(t), "cp1")
	command := []string{kubeadm, "init", "--config", initConfigFile, "-v=1"}
	for verbosity, phase := range []string{"upload-config", "bootstrap-token", "addon", "upload-config", ""} {
		config := nodes.Config{Address: n.Address()}
		config.Cluster = fmt.Sprintf("apiServer:\n  extraArgs:\n  - {name: v, value: \"%d\"}", verbosity)
		writeFile(t, n, initConfigFile, nodes.InitConfig(config))
		if phase == "" {
			run(t, n, command...)
			break
		}
		result, killed := runInterrupted(t, n, unix.SIGKILL, atPhase(phase), command...)
		if !killed {
			t.Fatalf("init did not get to phase %s:\n%s%s", phase, result.Stdout, result.Stderr)
		}
		t.Logf("killed after %s:%s", result.Duration, indentLines(lastLines(result.Stdout, 2)))
	}
	checkControlPlaneNode(t, n)
	if running := runShell(t, n, "pgrep -af kube-apiserver"); !strings.Contains(running, " --v=4") {
		t.Errorf("the API server that runs has not the last arguments:\n%s", running)
	}
}
