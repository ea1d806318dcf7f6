package rotateca

import (
	"testing"

	"kubeadm/internal/config"
	"kubeadm/internal/node"
)

// The stored configuration stays readable during a rotation, in each version of the document, and is
// the same after it.
func TestStoredSigningArgs(t *testing.T) {
	m := machine{node: &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}}
	const head = "kind: ClusterConfiguration\nkubernetesVersion: v1.37.1\napiVersion: kubeadm.k8s.io/"
	for name, text := range map[string]string{
		"v1beta4": head + "v1beta4\n",
		"v1beta4 with arguments": head + "v1beta4\n" +
			"controllerManager: {extraArgs: [{name: v, value: '2'}]}\n",
		"v1beta3": head + "v1beta3\n",
		"v1beta3 with arguments": head + "v1beta3\n" +
			"controllerManager: {extraArgs: {v: '2'}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			before, _, err := config.StoredCluster(text)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if text, err = m.editSigningArgs(text, true); err != nil {
					t.Fatal(err)
				}
				during, _, err := config.StoredCluster(text)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				args := during.ControllerManager.Args
				for _, s := range signingArgs(m.node.Paths) {
					if got, _ := node.LastArg(args, s.name); got != s.rotating {
						t.Errorf("--%s is %q", s.name, got)
					}
				}
				if want := len(before.ControllerManager.Args) + 2; len(args) != want {
					t.Errorf("there are %d arguments, want %d", len(args), want)
				}
			}
			if text, err = m.editSigningArgs(text, false); err != nil {
				t.Fatal(err)
			}
			after, _, err := config.StoredCluster(text)
			if err != nil || len(after.ControllerManager.Args) != len(before.ControllerManager.Args) {
				t.Errorf("left are %v: %v", after.ControllerManager.Args, err)
			}
		})
	}
}
