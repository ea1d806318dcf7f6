package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubeadm/internal/world"
)

const rbac = "rbac.authorization.k8s.io"

// resource returns the resource of a kind. It fails for a namespace of a kind that has none.
func resource(gvk schema.GroupVersionKind,
	namespace string) (found schema.GroupVersionResource, namespaced bool, err error) {
	resource, known := map[schema.GroupKind]struct {
		name       string
		namespaced bool
	}{
		{Kind: "ConfigMap"}:                           {"configmaps", true},
		{Kind: "Secret"}:                              {"secrets", true},
		{Kind: "ServiceAccount"}:                      {"serviceaccounts", true},
		{Kind: "Service"}:                             {"services", true},
		{Kind: "Pod"}:                                 {"pods", true},
		{Kind: "Node"}:                                {"nodes", false},
		{Kind: "Namespace"}:                           {"namespaces", false},
		{Kind: "PersistentVolume"}:                    {"persistentvolumes", false},
		{Kind: "Event"}:                               {"events", true},
		{Group: "apps", Kind: "Deployment"}:           {"deployments", true},
		{Group: "apps", Kind: "DaemonSet"}:            {"daemonsets", true},
		{Group: "apps", Kind: "ReplicaSet"}:           {"replicasets", true},
		{Group: "apps", Kind: "ControllerRevision"}:   {"controllerrevisions", true},
		{Group: "batch", Kind: "Job"}:                 {"jobs", true},
		{Group: "coordination.k8s.io", Kind: "Lease"}: {"leases", true},
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {"certificatesigningrequests", false},
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                {"endpointslices", true},
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:                 {"servicecidrs", false},
		{Group: "storage.k8s.io", Kind: "CSINode"}:                        {"csinodes", false},
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:               {"volumeattachments", false},
		{Group: rbac, Kind: "Role"}:                                       {"roles", true},
		{Group: rbac, Kind: "RoleBinding"}:                                {"rolebindings", true},
		{Group: rbac, Kind: "ClusterRole"}:                                {"clusterroles", false},
		{Group: rbac, Kind: "ClusterRoleBinding"}:                         {"clusterrolebindings", false},
	}[gvk.GroupKind()]
	if !known {
		return found, false, world.Permanent(fmt.Errorf("kind %q of group %q is not supported", gvk.Kind,
			gvk.Group))
	}
	if !resource.namespaced && namespace != "" {
		return found, false, world.Permanent(fmt.Errorf("a %s is not namespaced, but namespace %q was given",
			gvk.Kind, namespace))
	}
	return gvk.GroupVersion().WithResource(resource.name), resource.namespaced, nil
}

func (c *client) resource(gvk schema.GroupVersionKind,
	namespace string) (dynamic.ResourceInterface, error) {
	found, namespaced, err := resource(gvk, namespace)
	if err != nil {
		return nil, err
	}
	if namespaced {
		return c.objects.Resource(found).Namespace(namespace), nil
	}
	return c.objects.Resource(found), nil
}
