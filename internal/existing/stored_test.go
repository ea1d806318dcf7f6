package existing

import (
	"slices"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// During a rotation of the CAs, kube-controller-manager signs with a pair of its own only on machines
// that have it.
func TestSignerOfRotationIsThatOfTheMachine(t *testing.T) {
	n := &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
	cert, key := n.Paths.RotationSigner()
	all := []node.Arg{{Name: "v", Value: "2"}, {Name: "cluster-signing-cert-file", Value: cert},
		{Name: "cluster-signing-key-file", Value: key}}
	for has, want := range map[bool][]node.Arg{true: all, false: all[:1]} {
		w := fake.New()
		if has {
			w.Files[cert], w.Files[key] = memory.File{Mode: 0o644}, memory.File{Mode: 0o600}
		}
		own := *n
		own.Cluster.ControllerManager.Args = slices.Clone(all)
		if err := dropSigner(t.Context(), w, &own); err != nil {
			t.Fatal(err)
		}
		if got := own.Cluster.ControllerManager.Args; !slices.Equal(got, want) {
			t.Errorf("with the pair: %t: %v", has, got)
		}
	}
}
