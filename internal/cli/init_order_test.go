package cli

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// slowControlPlane is a machine whose API server answers, but is live only when the kubelet uses its
// rotated certificate, and whose kube-controller-manager is healthy only when the configuration is in
// the cluster. No real one is like that: an init ends there only if it does not wait first.
type slowControlPlane struct{ world.World }

const rotatedCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

func (w slowControlPlane) Livez(ctx context.Context, as state.Identity) error {
	config, err := w.ReadFile(ctx, "/etc/kubernetes/kubelet.conf")
	if err != nil || !strings.Contains(string(config), rotatedCertificate) {
		return &state.NotLiveError{Status: http.StatusInternalServerError}
	}
	return w.World.Livez(ctx, as)
}

func (w slowControlPlane) Fetch(ctx context.Context, r state.Request) (state.Response, error) {
	if strings.Contains(r.URL, ":10257/") {
		if _, err := w.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			Namespace: "kube-system", Name: "kubeadm-config",
			As: state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}}); err != nil {
			return state.Response{}, err
		}
	}
	return w.World.Fetch(ctx, r)
}

func (w slowControlPlane) Await(ctx context.Context, c world.Condition) error {
	c.Timeout = 10 * time.Second
	return world.Poll(ctx, w, c)
}

// While kube-controller-manager starts, init does what needs only a live API server; and it restarts
// the kubelet as soon as the API server answers.
func TestInitUsesTimeOfWaits(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	s.world.Files[rotatedCertificate] = memory.File{Mode: 0o600}
	s.Host.World = func() world.World { return slowControlPlane{s.world} }
	if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err != nil {
		t.Fatal(err)
	}
	waits, uploads := strings.Index(s.out.String(), "[wait-control-plane]"),
		strings.Index(s.out.String(), "[upload-config]")
	if waits < 0 || uploads < waits {
		t.Errorf("the output is not in the order of the phases:\n%s", &s.out)
	}
}
