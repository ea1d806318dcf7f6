package cli

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/health"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// slowControlPlane is a machine on which each thing happens only after one that init does beside it. No
// real one is like that: an init ends there only if it does not wait for the one before it does the other.
//
//   - The last key is written once the kubelet runs.
//   - The API server creates its RBAC objects once the kubelet uses its rotated certificate and the
//     configuration is in the cluster, which takes the rights of super-admin.conf.
//   - It is live once kube-scheduler has its manifest, and that one has it before only if the RBAC objects
//     are created quickly.
type slowControlPlane struct {
	world.World
	rbac *time.Time   // when the API server began to create RBAC objects
	live *atomic.Bool // before that it knows no user but that of super-admin.conf
	slow bool         // it takes a second and not a tenth until it authorizes kube-controller-manager
}

const rotatedCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// checkUser refuses the user of admin.conf, who has no rights before the API server is live.
func (w slowControlPlane) checkUser(as state.Identity) error {
	if path.Base(as.Kubeconfig) == "admin.conf" && !w.live.Load() {
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no RBAC objects"))
	}
	return nil
}

func (w slowControlPlane) Do(ctx context.Context, c change.Change) error {
	if object, ok := c.(change.ApplyObject); ok {
		if err := w.checkUser(object.As); err != nil {
			return err
		}
	}
	if file, ok := c.(change.WriteFile); ok && file.Path == "/etc/kubernetes/scheduler.conf" {
		if err := w.Await(ctx, world.Condition{Name: "the kubelet", Check: func(ctx context.Context, r state.Reader) error {
			if s, err := r.Service(ctx, "kubelet"); err != nil || !s.Active {
				return errors.New("it was not started")
			}
			return nil
		}}); err != nil {
			return err
		}
	}
	return w.World.Do(ctx, c)
}

func (w slowControlPlane) Now() time.Time { return time.Now() }

func (w slowControlPlane) Livez(ctx context.Context, as state.Identity) error {
	if err := w.World.Livez(ctx, as); err != nil {
		return err
	}
	config, err := w.ReadFile(ctx, "/etc/kubernetes/kubelet.conf")
	if err != nil || !strings.Contains(string(config), rotatedCertificate) {
		return &state.NotLiveError{Status: http.StatusInternalServerError}
	}
	_, err = w.World.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Namespace: "kube-system", Name: "kubeadm-config",
		As: state.Identity{Kubeconfig: "/etc/kubernetes/super-admin.conf"}})
	if err != nil {
		return &state.NotLiveError{Status: http.StatusInternalServerError}
	}
	if w.rbac.IsZero() {
		*w.rbac = time.Now()
	}
	if _, err := w.Stat(ctx, "/etc/kubernetes/manifests/kube-scheduler.yaml"); err != nil &&
		time.Since(*w.rbac) < 2*time.Second {
		return &state.NotLiveError{Status: http.StatusInternalServerError,
			Failed: []string{health.RBACCheck}}
	}
	w.live.Store(true)
	return nil
}

func (w slowControlPlane) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if err := w.checkUser(ref.As); err != nil {
		return nil, err
	}
	bootstrap := map[bool]time.Duration{true: time.Second, false: 100 * time.Millisecond}[w.slow]
	isEarly := w.rbac.IsZero() || time.Since(*w.rbac) < bootstrap
	switch {
	case ref.GVK.Kind == "Namespace":
		return &unstructured.Unstructured{}, nil
	case ref.GVK.Kind == "Lease" && isEarly:
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, ref.Name, nil)
	}
	return w.World.Object(ctx, ref)
}

func (w slowControlPlane) Await(ctx context.Context, c world.Condition) error {
	c.Timeout = 10 * time.Second
	return world.Poll(ctx, w, c)
}

// Init uses the time of its waits: see slowControlPlane.
func TestInitUsesTimeOfWaits(t *testing.T) {
	for _, slow := range []bool{false, true} {
		s := newTestMachine(t)
		s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
		s.world.Files[rotatedCertificate] = memory.File{Mode: 0o600}
		w := slowControlPlane{World: s.world, rbac: &time.Time{}, live: &atomic.Bool{}, slow: slow}
		s.Host.World = func() world.World { return w }
		if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(*w.rbac) >= 2*time.Second; waited != slow { // the rest takes no time
			t.Errorf("slow RBAC objects: %t; kube-scheduler waited for the last of them: %t", slow, waited)
		}
		waits, uploads := strings.Index(s.out.String(), "[wait-control-plane]"),
			strings.Index(s.out.String(), "[upload-config]")
		if waits < 0 || uploads < waits {
			t.Errorf("the output is not in the order of the phases:\n%s", &s.out)
		}
	}
}

// An init of which nothing talks to an API server needs none.
func TestInitWithoutAPIServer(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml", "--skip-phases",
		"kubelet-start,wait-control-plane,upload-config,upload-certs,mark-control-plane,"+
			"bootstrap-token,kubelet-finalize,addon,show-join-command"); err != nil {
		t.Error(err)
	}
	if _, err := s.world.Stat(t.Context(), "/etc/kubernetes/manifests/kube-scheduler.yaml"); err != nil {
		t.Error(err)
	}
}
