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

func TestKubeletWithoutInitSystem(t *testing.T) {
	w := fake.New()
	var warnings []string
	e := engine.New(engine.Env{World: withoutInitSystem{w}, Emit: func(e engine.Event) {
		if e.Kind == engine.Warned {
			warnings = append(warnings, e.Text)
		}
	}})
	if err := stopService(t.Context(), e); err != nil {
		t.Error(err)
	}
	if err := startService(t.Context(), e); err != nil {
		t.Error(err)
	}
	if text := strings.Join(warnings, "\n"); !strings.Contains(text, "stop the kubelet manually") ||
		!strings.Contains(text, "start the kubelet manually") {
		t.Errorf("warned of %q", text)
	}
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
