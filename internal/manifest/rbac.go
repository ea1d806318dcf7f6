package manifest

import (
	"slices"

	"kubeadm/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// Names of users and groups.
const (
	// TokenGroup is the default group of bootstrap tokens.
	TokenGroup = "system:bootstrappers:kubeadm:default-node-token"
	// AdminGroup is the group that ClusterAdmins binds to the ClusterRole cluster-admin.
	AdminGroup = "kubeadm:cluster-admins"
)

// Subjects of bindings.
var (
	tokenUsers = rbacv1.Subject{Kind: rbacv1.GroupKind, Name: TokenGroup}
	admins     = rbacv1.Subject{Kind: rbacv1.GroupKind, Name: AdminGroup}
	nodes      = rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:nodes"}
	anonymous  = rbacv1.Subject{Kind: rbacv1.UserKind, Name: "system:anonymous"}
	// user of the API server's client certificate for kubelets
	kubeletClient  = rbacv1.Subject{Kind: rbacv1.UserKind, Name: "kube-apiserver-kubelet-client"}
	coreDNSAccount = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: kubeSystem,
		Name: "coredns"}
	kubeProxyAccount = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: kubeSystem,
		Name: kubeProxy}
)

const rbacVersion = "rbac.authorization.k8s.io/v1"

// clusterBinding binds subjects to a ClusterRole.
func clusterBinding(name, clusterRole string,
	subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacVersion, Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: clusterRole},
		Subjects: subjects,
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacVersion, Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rules,
	}
}

// ReadAccess allows subjects to read one object.
type ReadAccess struct {
	namespace, resource, name string
	role                      string // name of the Role and of its RoleBinding
	subjects                  []rbacv1.Subject
}

// Access to what joining machines and nodes read.
var (
	KubeadmConfigAccess = ReadAccess{kubeSystem, "configmaps", KubeadmConfigMap,
		"kubeadm:nodes-kubeadm-config", []rbacv1.Subject{tokenUsers, nodes}}
	KubeletConfigAccess = ReadAccess{kubeSystem, "configmaps", KubeletConfigMap,
		"kubeadm:kubelet-config", []rbacv1.Subject{nodes, tokenUsers}}
	// CertsAccess is access to the Secret kubeadm-certs, which is useless without the certificate
	// key.
	CertsAccess = ReadAccess{kubeSystem, "secrets", CertsSecret, "kubeadm:kubeadm-certs",
		[]rbacv1.Subject{tokenUsers}}
	// FilesAccess is access to the Secret kubeadm-files, which is useless without that key too.
	FilesAccess = ReadAccess{kubeSystem, "secrets", FilesSecret, "kubeadm:kubeadm-files",
		[]rbacv1.Subject{tokenUsers}}

	// CARotationAccess is access to the state of a CA rotation.
	CARotationAccess = ReadAccess{kubeSystem, "configmaps", CARotation, "kubeadm:ca-rotation",
		[]rbacv1.Subject{nodes}}
	// ReconfigurationAccess is access to what nodes may read of a change of the cluster's configuration.
	ReconfigurationAccess = ReadAccess{kubeSystem, "configmaps", Reconfiguration,
		"kubeadm:reconfiguration", []rbacv1.Subject{nodes}}

	kubeProxyConfigAccess = ReadAccess{kubeSystem, "configmaps", KubeProxyConfigMap, kubeProxy,
		[]rbacv1.Subject{tokenUsers}}
	clusterInfoAccess = ReadAccess{kubePublic, "configmaps", bootstrapapi.ConfigMapClusterInfo,
		"kubeadm:bootstrap-signer-clusterinfo", []rbacv1.Subject{anonymous}}
)

// Objects are a Role and its RoleBinding.
func (r ReadAccess) Objects() []state.Object {
	return []state.Object{
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacVersion, Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.role},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{r.resource},
				ResourceNames: []string{r.name}, Verbs: []string{"get"},
			}},
		},
		&rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacVersion, Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.role},
			Subjects:   r.subjects,
		},
	}
}

// ClusterAdmins binds AdminGroup to the ClusterRole cluster-admin.
func ClusterAdmins() state.Object {
	return clusterBinding("kubeadm:cluster-admins", "cluster-admin", admins)
}

// KubeletClientAccess lets the API server connect to kubelets, as for kubectl logs and exec. Up to
// Kubernetes 1.36 kubeadm gave its client certificate a group of administrators instead.
func KubeletClientAccess() state.Object {
	return clusterBinding("kubeadm:apiserver-kubelet-client", KubeletAPIAdmin().GetName(),
		kubeletClient)
}

// KubeletAPIAdmin is the ClusterRole, by its name only, that every API server creates for clients
// of kubelets.
func KubeletAPIAdmin() state.Object { return clusterRole("system:kubelet-api-admin") }

// JoinAccess is what nodes need to join and to renew their certificates. It leaves out what users
// delete on purpose, to approve each node themselves or to hide cluster-info.
func JoinAccess() []state.Object {
	others := []string{"kubeadm:node-autoapprove-bootstrap", clusterInfoAccess.role,
		KubeletClientAccess().GetName()}
	return slices.Concat(slices.DeleteFunc(BootstrapRBAC(),
		func(o state.Object) bool { return slices.Contains(others, o.GetName()) }),
		KubeadmConfigAccess.Objects(), KubeletConfigAccess.Objects())
}

// BootstrapRBAC allows machines with a bootstrap token to join, kubelets to renew their
// certificates, the API server to connect to kubelets, and anonymous users to read ClusterInfo.
func BootstrapRBAC() []state.Object {
	const signing = "system:certificates.k8s.io:certificatesigningrequests:"
	return append([]state.Object{
		clusterRole("kubeadm:get-nodes",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"},
				Verbs: []string{"get"}}),
		clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", tokenUsers),
		clusterBinding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", tokenUsers),
		clusterBinding("kubeadm:node-autoapprove-bootstrap", signing+"nodeclient", tokenUsers),
		clusterBinding("kubeadm:node-autoapprove-certificate-rotation", signing+"selfnodeclient",
			nodes),
		KubeletClientAccess(),
	}, clusterInfoAccess.Objects()...)
}
