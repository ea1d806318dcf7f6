package manifest

import (
	"kubeadm/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of users and groups.
const (
	// TokenGroup is the default group of bootstrap tokens.
	TokenGroup = "system:bootstrappers:kubeadm:default-node-token"
	// AdminGroup is the group that ClusterAdmins binds to the ClusterRole cluster-admin.
	AdminGroup = "kubeadm:cluster-admins"

	nodesGroup    = "system:nodes"
	anonymousUser = "system:anonymous"
	// user of the API server's client certificate for kubelets
	kubeletClient = "kube-apiserver-kubelet-client"
)

func groupSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name}
}
func userSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, Name: name}
}

func serviceAccountSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: kubeSystem, Name: name}
}

func rbacTypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// clusterBinding binds subjects to a ClusterRole.
func clusterBinding(name, clusterRole string,
	subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   rbacTypeMeta("ClusterRoleBinding"),
		ObjectMeta: objectMeta("", name),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: clusterRole},
		Subjects: subjects,
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: rbacTypeMeta("ClusterRole"),
		ObjectMeta: objectMeta("", name), Rules: rules}
}

// readableObject is one object that subjects are allowed to read.
type readableObject struct {
	namespace, resource, name string
	role                      string // name of the Role and of its RoleBinding
}

// access is a Role and a RoleBinding.
func (r readableObject) access(subjects ...rbacv1.Subject) []state.Object {
	return []state.Object{
		&rbacv1.Role{
			TypeMeta:   rbacTypeMeta("Role"),
			ObjectMeta: objectMeta(r.namespace, r.role),
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{r.resource},
				ResourceNames: []string{r.name}, Verbs: []string{"get"},
			}},
		},
		&rbacv1.RoleBinding{
			TypeMeta:   rbacTypeMeta("RoleBinding"),
			ObjectMeta: objectMeta(r.namespace, r.role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.role},
			Subjects:   subjects,
		},
	}
}

// ClusterAdmins binds AdminGroup to the ClusterRole cluster-admin.
func ClusterAdmins() state.Object {
	return clusterBinding("kubeadm:cluster-admins", "cluster-admin", groupSubject(AdminGroup))
}

// BootstrapRBAC allows machines with a bootstrap token to join, kubelets to renew their
// certificates, and the API server to connect to kubelets.
func BootstrapRBAC() []state.Object {
	const signing = "system:certificates.k8s.io:certificatesigningrequests:"
	return []state.Object{
		clusterRole("kubeadm:get-nodes",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"},
				Verbs: []string{"get"}}),
		clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", groupSubject(TokenGroup)),
		clusterBinding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper",
			groupSubject(TokenGroup)),
		clusterBinding("kubeadm:node-autoapprove-bootstrap", signing+"nodeclient",
			groupSubject(TokenGroup)),
		clusterBinding("kubeadm:node-autoapprove-certificate-rotation", signing+"selfnodeclient",
			groupSubject(nodesGroup)),
		clusterBinding("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin",
			userSubject(kubeletClient)),
	}
}
