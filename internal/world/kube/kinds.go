package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubeadm/internal/world"
)

const rbac = "rbac.authorization.k8s.io"

// resourceName returns the resource name of a kind in the API, and whether it is namespaced.
func resourceName(kind schema.GroupKind) (resource string, namespaced bool, err error) {
	switch kind {
	case schema.GroupKind{Kind: "ConfigMap"}:
		return "configmaps", true, nil
	case schema.GroupKind{Kind: "Secret"}:
		return "secrets", true, nil
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return "serviceaccounts", true, nil
	case schema.GroupKind{Kind: "Service"}:
		return "services", true, nil
	case schema.GroupKind{Kind: "Pod"}:
		return "pods", true, nil
	case schema.GroupKind{Kind: "Node"}:
		return "nodes", false, nil
	case schema.GroupKind{Kind: "Namespace"}:
		return "namespaces", false, nil
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return "deployments", true, nil
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return "daemonsets", true, nil
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return "jobs", true, nil
	case schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}:
		return "leases", true, nil
	case schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:
		return "certificatesigningrequests", false, nil
	case schema.GroupKind{Group: rbac, Kind: "Role"}:
		return "roles", true, nil
	case schema.GroupKind{Group: rbac, Kind: "RoleBinding"}:
		return "rolebindings", true, nil
	case schema.GroupKind{Group: rbac, Kind: "ClusterRole"}:
		return "clusterroles", false, nil
	case schema.GroupKind{Group: rbac, Kind: "ClusterRoleBinding"}:
		return "clusterrolebindings", false, nil
	}
	return "", false, world.Permanent(fmt.Errorf("kind %q of group %q is not supported", kind.Kind,
		kind.Group))
}

func (c *client) resource(gvk schema.GroupVersionKind,
	namespace string) (dynamic.ResourceInterface, error) {
	name, namespaced, err := resourceName(gvk.GroupKind())
	if err != nil {
		return nil, err
	}
	r := c.objects.Resource(gvk.GroupVersion().WithResource(name))
	if namespaced {
		return r.Namespace(namespace), nil
	}
	if namespace != "" {
		return nil, world.Permanent(fmt.Errorf("a %s is not namespaced, but namespace %q was given",
			gvk.Kind, namespace))
	}
	return r, nil
}
