package kubelet

import (
	"context"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// withoutInitSystem is a machine whose user starts the kubelet, as in a container.
type withoutInitSystem struct{ *fake.World }

func (w withoutInitSystem) Service(context.Context, string) (state.Service, error) {
	return state.Service{}, state.ErrNoInitSystem
}

// The certificate is not given up if the kubelet cannot be stopped.
func TestRebootstrapWithoutInitSystem(t *testing.T) {
	w := fake.New()
	e := engine.New(engine.Env{World: withoutInitSystem{w}})
	n := &node.Node{Local: node.Local{Name: "worker1", Paths: node.DefaultPaths()},
		BootstrapKubeconfig: []byte("a token")}
	if err := rebootstrap(t.Context(), e, n, nil); err == nil ||
		!strings.Contains(err.Error(), "stopping the kubelet") {
		t.Errorf("renewing the certificate: %v", err)
	}
	if _, written := w.Files[n.Paths.BootstrapKubeconfig()]; written {
		t.Error("the token was written")
	}
}
