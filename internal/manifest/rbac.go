package manifest

import (
	"kubeadm/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the cluster's subjects.
const (
	// TokenGroup is the group of those who present a bootstrap token, unless the token names others.
	TokenGroup = "system:bootstrappers:kubeadm:default-node-token"
	// AdminGroup is the group of the administrators, to whom ClusterAdmins gives all rights.
	AdminGroup = "kubeadm:cluster-admins"

	nodesGroup    = "system:nodes"
	anonymousUser = "system:anonymous"
	kubeletClient = "kube-apiserver-kubelet-client" // the API server, as kubelets know it
)

func group(name string) rbacv1.Subject { return rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name} }
func user(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: rbacv1.UserKind, Name: name} }

func serviceAccountSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: kubeSystem, Name: name}
}

func rbac(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// clusterBinding gives subjects the rights of a ClusterRole everywhere.
func clusterBinding(name, clusterRole string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   rbac("ClusterRoleBinding"),
		ObjectMeta: named("", name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   subjects,
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: rbac("ClusterRole"), ObjectMeta: named("", name), Rules: rules}
}

// readable is one object that subjects may read.
type readable struct {
	namespace, resource, name string
	role                      string // name of the Role and of its RoleBinding
}

// access is a Role and a RoleBinding.
func (r readable) access(subjects ...rbacv1.Subject) []state.Object {
	return []state.Object{
		&rbacv1.Role{
			TypeMeta:   rbac("Role"),
			ObjectMeta: named(r.namespace, r.role),
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{r.resource}, ResourceNames: []string{r.name}, Verbs: []string{"get"},
			}},
		},
		&rbacv1.RoleBinding{
			TypeMeta:   rbac("RoleBinding"),
			ObjectMeta: named(r.namespace, r.role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.role},
			Subjects:   subjects,
		},
	}
}

// ClusterAdmins gives the administrators all rights.
func ClusterAdmins() state.Object {
	return clusterBinding("kubeadm:cluster-admins", "cluster-admin", group(AdminGroup))
}

// BootstrapRBAC lets machines with a bootstrap token join, kubelets renew their
// certificates, and the API server speak to kubelets.
func BootstrapRBAC() []state.Object {
	const signing = "system:certificates.k8s.io:certificatesigningrequests:"
	return []state.Object{
		clusterRole("kubeadm:get-nodes", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}),
		clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", group(TokenGroup)),
		clusterBinding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", group(TokenGroup)),
		clusterBinding("kubeadm:node-autoapprove-bootstrap", signing+"nodeclient", group(TokenGroup)),
		clusterBinding("kubeadm:node-autoapprove-certificate-rotation", signing+"selfnodeclient", group(nodesGroup)),
		clusterBinding("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", user(kubeletClient)),
	}
}
