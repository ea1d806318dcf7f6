package addon

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/health"
	"kubeadm/internal/state"
)

// deploymentRevision is the annotation by which a Deployment names its latest ReplicaSet.
const deploymentRevision = "deployment.kubernetes.io/revision"

// findRevision returns the selector of the Pods of the latest template of a DaemonSet or Deployment: the label that
// its controller gives them. It is empty if there is none, and an error as long as the controller has not seen the template.
// Age would not do: after an interrupted run, the Pods of the latest template are there already.
func findRevision(ctx context.Context, r state.Reader, ref state.Ref, selector string) (string, error) {
	u, err := r.Object(ctx, ref)
	if err != nil {
		return "", err
	}
	if !health.IsObserved(u) {
		return "", errors.New("its controller has not seen the change yet")
	}
	kind, label := "ControllerRevision", appsv1.DefaultDaemonSetUniqueLabelKey
	if ref.GVK.Kind == "Deployment" {
		kind, label = "ReplicaSet", appsv1.DefaultDeploymentUniqueLabelKey
	}
	all, err := r.List(ctx, state.Query{GVK: appsv1.SchemeGroupVersion.WithKind(kind), As: ref.As, Namespace: ref.Namespace,
		LabelSelector: selector, Fields: []string{"metadata", "revision"}})
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(o unstructured.Unstructured) bool {
		if !slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == u.GetUID() }) {
			return true
		}
		return kind == "ReplicaSet" && o.GetAnnotations()[deploymentRevision] != u.GetAnnotations()[deploymentRevision]
	})
	if len(all) == 0 {
		return "", nil
	}
	latest := slices.MaxFunc(all, func(a, b unstructured.Unstructured) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	hash := latest.GetLabels()[label]
	if hash == "" {
		return "", nil
	}
	return label + "=" + hash, nil
}

// revisionOf is the number of a ControllerRevision.
func revisionOf(u unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, "revision")
	return n
}
