//go:build linux

package worldtest_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"

	"kubeadm/test/nodes"
)

// TestTheRealWorldOnANode runs the tests that alter a machine on one that is made for it: their
// programs are built, copied to a node and run there.
func TestTheRealWorldOnANode(t *testing.T) {
	bundle := os.Getenv("KUBEADM_BUNDLE")
	if bundle == "" || os.Geteuid() != 0 {
		t.Skip("real nodes need root and KUBEADM_BUNDLE, the directory of a components bundle")
	}
	c, err := nodes.NewCluster(t.Context(), nodes.Options{Bundle: bundle, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	n, err := c.Add(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"linux", "cri", "real"} {
		t.Run(name, func(t *testing.T) { runOn(t, n, name) })
	}
}

func runOn(t *testing.T, n *nodes.Node, name string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program,
		"kubeadm/internal/world/"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of %s: %v: %s", name, err, out)
	}
	there := path.Join("/root", name+".test")
	if err := n.Copy(program, there, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := n.Command(there, "-test.v", "-test.timeout=50m")
	tests.Env = []string{"KUBEADM_TEST_NODE=1"}
	result, err := tests.Run(t.Context())
	t.Log(result.Stdout)
	if err != nil {
		t.Error(err)
	}
}
