package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Object reads one object, if the API server answers and accepts the identity.
func (w *World) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if err := w.checkAccess(ctx, ref.As); err != nil {
		return nil, err
	}
	return w.World.Object(ctx, ref)
}

// List reads objects, if the API server answers and accepts the identity.
func (w *World) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	if err := w.checkAccess(ctx, q.As); err != nil {
		return nil, err
	}
	return w.World.List(ctx, q)
}

// Watch returns changes of objects, if the API server answers and accepts the identity.
func (w *World) Watch(ctx context.Context, of state.Watch) (string, error) {
	if err := w.checkAccess(ctx, of.As); err != nil {
		return of.Version, err
	}
	return w.World.Watch(ctx, of)
}

// PodLog returns the log of a Pod, from PodLogs.
func (w *World) PodLog(ctx context.Context, of state.PodLog) (string, error) {
	if err := w.checkAccess(ctx, of.As); err != nil {
		return "", err
	}
	log, found := w.PodLogs[of.Pod]
	if !found {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, of.Pod)
	}
	return log, nil
}

// Livez succeeds once an API server was started.
func (w *World) Livez(ctx context.Context, as state.Identity) error {
	if err := w.checkAccess(ctx, as); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// checkAccess returns an error unless the API server accepts the identity. As in a new cluster,
// the user of admin.conf has no permissions until the cluster-admin ClusterRoleBinding exists;
// that of super-admin.conf does not need it.
func (w *World) checkAccess(ctx context.Context, as state.Identity) error {
	if w.RemoteAPIServer && !w.isOwnAPIServer(as.Server+":") {
		return nil
	}
	if as.Kubeconfig != "" {
		if _, err := w.ReadFile(ctx, as.Kubeconfig); err != nil {
			return fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	if !w.isRunning(ctx, "kube-apiserver") {
		return errors.New("connection refused")
	}
	binding := state.Ref{GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		Name: "kubeadm:cluster-admins"}
	if _, err := w.World.Object(ctx, binding); err != nil &&
		path.Base(as.Kubeconfig) == "admin.conf" {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "anything"}, "",
			errors.New("the ClusterRoleBinding kubeadm:cluster-admins does not exist"))
	}
	return nil
}

// isOwnAPIServer reports whether a text contains the URL of this machine's API server.
func (w *World) isOwnAPIServer(text string) bool {
	return strings.Contains(text, "https://"+w.Interfaces[0].IP+":")
}

// reportAddress writes the address of this machine to its Node, if that has one: the one that the kubelet is told,
// or that of the interface with the default route.
func (w *World) reportAddress(ctx context.Context, n *corev1.Node) error {
	address := ""
	for _, a := range w.Interfaces {
		if a.DefaultRoute && address == "" {
			address = a.IP
		}
	}
	flags, _ := w.ReadFile(ctx, "/var/lib/kubelet/kubeadm-flags.env")
	if _, set, isSet := strings.Cut(string(flags), "--node-ip="); isSet {
		address, _, _ = strings.Cut(strings.TrimRight(set, "\"\n"), " ")
	}
	return w.World.Do(ctx, change.MutateObject{Object: n, Mutate: func(u *unstructured.Unstructured) error {
		if _, has, _ := unstructured.NestedSlice(u.Object, "status", "addresses"); !has {
			return nil
		}
		return unstructured.SetNestedSlice(u.Object, []any{
			map[string]any{"type": "InternalIP", "address": address}}, "status", "addresses")
	}})
}

// rollOut reports in a Deployment that was changed that all of its Pods are available, if it had any.
func (w *World) rollOut(ctx context.Context, o state.Object) error {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return nil
	}
	return w.World.Do(ctx, change.MutateObject{Object: d, Mutate: func(u *unstructured.Unstructured) error {
		wanted, isSet, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		if _, had, _ := unstructured.NestedInt64(u.Object, "status", "replicas"); !isSet || !had {
			return nil
		}
		for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
			if err := unstructured.SetNestedField(u.Object, wanted, "status", field); err != nil {
				return err
			}
		}
		return nil
	}})
}

// isRunning reports whether the kubelet runs, and with it a component's static Pod; "" means the
// kubelet only. A kubelet needs its configuration and a kubeconfig, a component its files, and an
// API server etcd.
func (w *World) isRunning(ctx context.Context, component string) bool {
	s, _ := w.Service(ctx, "kubelet")
	if !s.Active || !w.hasFile("/var/lib/kubelet/config.yaml") ||
		!w.hasFile("/etc/kubernetes/kubelet.conf") &&
			!w.hasFile("/etc/kubernetes/bootstrap-kubelet.conf") {
		return false
	}
	if w.BrokenKubelet != "" {
		for _, file := range []string{"config.yaml", "kubeadm-flags.env"} {
			text, _ := w.ReadFile(ctx, "/var/lib/kubelet/"+file)
			if strings.Contains(string(text), w.BrokenKubelet) {
				return false
			}
		}
	}
	if component == "" {
		return true
	}
	data, err := w.ReadFile(ctx, "/etc/kubernetes/manifests/"+component+".yaml")
	if err != nil || w.crashLog(ctx, component) != "" {
		return false
	}
	for line := range bytes.Lines(data) {
		_, value, ok := bytes.Cut(line, []byte("=/"))
		if !ok {
			continue
		}
		file := string(bytes.TrimSpace(value))
		if slices.Contains([]string{".crt", ".key", ".pub", ".conf"}, path.Ext(file)) &&
			!w.hasFile("/"+file) {
			return false
		}
	}
	return !bytes.Contains(data, []byte("--etcd-servers=https://127.0.0.1:")) ||
		w.isRunning(ctx, "etcd") && !w.isIsolated(ctx)
}

func (w *World) hasFile(name string) bool {
	_, err := w.Stat(context.Background(), name)
	return err == nil
}
