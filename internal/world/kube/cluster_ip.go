package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/world"
)

// releaseClusterIP deletes the IPAddress that reserves the cluster IP of a Service that does not
// exist, and reports whether there was one. An API server writes the IPAddress first and then the
// Service (KEP-1880). If it ends in between, the IPAddress stays for a minute, and the Service
// cannot be created. An IPAddress of another Service is kept.
func (c *client) releaseClusterIP(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	if o.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Service") {
		return false, nil
	}
	ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP")
	if ip == "" || ip == corev1.ClusterIPNone {
		return false, nil
	}
	addresses := c.objects.Resource(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"))
	u, err := addresses.Get(ctx, ip, metav1.GetOptions{})
	var found networkingv1.IPAddress
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &found)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	service := networkingv1.ParentReference{
		Resource: "services", Namespace: o.GetNamespace(), Name: o.GetName(),
	}
	if found.Spec.ParentRef == nil || *found.Spec.ParentRef != service {
		return false, nil
	}
	world.ReportProgress(ctx, "releasing cluster IP %s: an interrupted creation of Service %s/%s "+
		"left it reserved", ip, service.Namespace, service.Name)
	err = addresses.Delete(ctx, ip, *metav1.NewPreconditionDeleteOptions(string(found.UID)))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil, err
}
