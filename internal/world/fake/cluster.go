package fake

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Object reads one object, if the API server answers and admits who asks.
func (w *World) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if err := w.admits(ctx, ref.As); err != nil {
		return nil, err
	}
	return w.World.Object(ctx, ref)
}

// List reads objects, if the API server answers and admits who asks.
func (w *World) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	if err := w.admits(ctx, q.As); err != nil {
		return nil, err
	}
	return w.World.List(ctx, q)
}

// Livez says yes once an API server was started and has been asked often enough.
func (w *World) Livez(ctx context.Context, as state.Identity) error {
	looked := int(w.looks.Add(1))
	if err := w.admits(ctx, as); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	if looked <= w.APIServerLag {
		return errors.New("connection refused")
	}
	return nil
}

// writer is as whom a change of an object is made.
func writer(c change.Change) (as state.Identity, ok bool) {
	switch c := c.(type) {
	case change.ApplyObject:
		return c.As, true
	case change.MutateObject:
		return c.As, true
	case change.DeleteObject:
		return c.Ref.As, true
	case change.LabelNode:
		return c.As, true
	}
	return as, false
}

// admits tells whether the API server lets somebody in. As in a new cluster, administrators
// have no rights until their group is bound to some; only super administrators need none.
func (w *World) admits(ctx context.Context, as state.Identity) error {
	if w.Elsewhere && !w.isOwn(as.Server+":") {
		return nil
	}
	if as.Kubeconfig != "" {
		if _, err := w.ReadFile(ctx, as.Kubeconfig); err != nil {
			return fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	if !w.runs(ctx, "kube-apiserver") {
		return errors.New("connection refused")
	}
	binding := state.Ref{GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Name: "kubeadm:cluster-admins"}
	if _, err := w.World.Object(ctx, binding); err != nil && path.Base(as.Kubeconfig) == "admin.conf" {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "anything"}, "", errors.New("the administrators have no rights"))
	}
	return nil
}

// isOwn tells whether a text names the API server of this machine.
func (w *World) isOwn(text string) bool {
	return strings.Contains(text, "https://"+w.Interfaces[0].IP+":")
}

// runs tells whether the kubelet runs, and with it a component's static Pod: a kubelet without
// its configuration or without a credential ends at once, and so does a component that misses
// one of its files, or an API server without etcd.
func (w *World) runs(ctx context.Context, component string) bool {
	s, _ := w.Service(ctx, "kubelet")
	if !s.Active || !w.has("/var/lib/kubelet/config.yaml") || !w.has("/etc/kubernetes/kubelet.conf") && !w.has("/etc/kubernetes/bootstrap-kubelet.conf") {
		return false
	}
	if component == "" {
		return true
	}
	data, err := w.ReadFile(ctx, "/etc/kubernetes/manifests/"+component+".yaml")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if file := neededBy(line); file != "" && !w.has(file) {
			return false
		}
	}
	return !strings.Contains(string(data), "--etcd-servers=https://127.0.0.1:") || w.runs(ctx, "etcd")
}

// neededBy is the file that an argument in a manifest tells a component to read, or empty.
func neededBy(line string) string {
	_, value, ok := strings.Cut(strings.TrimSpace(line), "=/")
	if !ok || !slices.Contains([]string{".crt", ".key", ".pub", ".conf"}, path.Ext(value)) {
		return ""
	}
	return "/" + value
}

func (w *World) has(name string) bool {
	_, err := w.Stat(context.Background(), name)
	return err == nil
}
