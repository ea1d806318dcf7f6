package fake

import (
	"context"
	"encoding/base64"
	"regexp"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

var hostnameOverride = regexp.MustCompile(`--hostname-override=([^\s"]+)`)

// registeredName is the name of the Node as which the kubelet registers: the one that it is told, if there is such a Node, and
// else NodeName.
func (w *World) registeredName(ctx context.Context) string {
	flags, _ := w.ReadFile(ctx, "/var/lib/kubelet/kubeadm-flags.env")
	found := hostnameOverride.FindSubmatch(flags)
	if found == nil {
		return w.NodeName
	}
	ref := state.Ref{GVK: state.NodeKind, Name: string(found[1])}
	if _, err := w.World.Object(ctx, ref); err != nil {
		return w.NodeName
	}
	return ref.Name
}

// reportReady lets a kubelet that is told another name than NodeName report that its Node is ready.
func (w *World) reportReady(ctx context.Context, name string) error {
	if name == w.NodeName {
		return nil
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.SetGroupVersionKind(state.NodeKind)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease}}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.Now().AddDate(1, 0, 0)}
	if err := w.World.Do(ctx, change.ApplyObject{Object: lease, Keep: true}); err != nil {
		return err
	}
	return w.World.Do(ctx, change.MutateObject{Object: n, Mutate: func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Ready", "status": "True"}},
			"status", "conditions")
	}})
}

// signRequest lets kube-controller-manager sign a request that is approved.
func (w *World) signRequest(ctx context.Context, approved change.MutateObject) error {
	approved.Subresource = ""
	approved.Mutate = func(u *unstructured.Unstructured) error {
		text, _, _ := unstructured.NestedString(u.Object, "spec", "request")
		request, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		return unstructured.SetNestedField(u.Object, base64.StdEncoding.EncodeToString(w.SignRequest(request)),
			"status", "certificate")
	}
	return w.World.Do(ctx, approved)
}

// replaceMirrors replaces the mirror Pods of a Node that was deleted, if the kubelet of this machine runs under another name.
func (w *World) replaceMirrors(ctx context.Context, deleted string) error {
	name := w.registeredName(ctx)
	all, err := w.World.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		FieldSelector: "spec.nodeName=" + deleted})
	if err != nil || name == deleted {
		return err
	}
	for _, u := range all {
		old := state.RefOf(&u, state.Identity{})
		if err := w.World.Do(ctx, change.DeleteObject{Ref: old}); err != nil {
			return err
		}
		if _, isMirror := u.GetAnnotations()[corev1.MirrorPodAnnotationKey]; !isMirror {
			continue
		}
		u.SetName(strings.TrimSuffix(u.GetName(), deleted) + name)
		u.SetResourceVersion("")
		u.SetUID("")
		if err := unstructured.SetNestedField(u.Object, name, "spec", "nodeName"); err != nil {
			return err
		}
		if err := w.World.Do(ctx, change.ApplyObject{Object: &u}); err != nil {
			return err
		}
	}
	return nil
}
