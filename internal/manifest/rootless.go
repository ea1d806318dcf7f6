package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// keyReadersGroup is the group that can read the key that signs service account tokens.
const keyReadersGroup = "kubeadm-sa-key-readers"

// accountName is the user and group that a component of a rootless control plane runs as.
func accountName(component string) string {
	return map[string]string{
		Etcd:                      "kubeadm-etcd",
		release.APIServer:         "kubeadm-kas",
		release.ControllerManager: "kubeadm-kcm",
		release.Scheduler:         "kubeadm-ks",
	}[component]
}

// readsServiceAccountKey reports whether a component reads the key that signs service account
// tokens.
func readsServiceAccountKey(component string) bool {
	return component == release.APIServer || component == release.ControllerManager
}

// SystemAccounts are the users and groups of a rootless control plane.
func SystemAccounts() change.SetAccounts {
	c := change.SetAccounts{Dir: "/etc"}
	readers := change.Group{Name: keyReadersGroup}
	for _, component := range append([]string{Etcd}, Components()...) {
		c.Users = append(c.Users, accountName(component))
		if readsServiceAccountKey(component) {
			readers.Members = append(readers.Members, accountName(component))
		}
	}
	c.Groups = []change.Group{readers}
	return c
}

// IsRootless reports whether the components of the control plane run as users of their own.
func IsRootless(n *node.Node) bool {
	return release.IsFeatureGateEnabled(n.Cluster.FeatureGates, release.RootlessControlPlane)
}

// AccountChanges creates the users of a rootless control plane; otherwise it is empty.
func AccountChanges(n *node.Node) []change.Change {
	if !IsRootless(n) {
		return nil
	}
	return []change.Change{SystemAccounts()}
}

// OwnerChanges sets the owner of the files that only this component of a rootless control plane
// uses; otherwise it is empty.
func OwnerChanges(component string, n *node.Node, h Host) ([]change.Change, error) {
	if !IsRootless(n) {
		return nil, nil
	}
	name := accountName(component)
	uid, gid, ok := h.Accounts.User(name)
	if !ok {
		return nil, missingAccountError(name)
	}
	var all []change.Change
	if component == Etcd {
		all = append(all, change.SetOwner{Path: n.Cluster.Etcd.DataDir, UID: uid, GID: gid,
			Name: name, Recursive: true})
	}
	for _, path := range privateFiles(component, n, h) {
		all = append(all, change.SetOwner{Path: path, UID: uid, GID: gid, Name: name, Mode: 0o600})
	}
	if readsServiceAccountKey(component) {
		readers, ok := h.Accounts.GroupID(keyReadersGroup)
		if !ok {
			return nil, missingAccountError(keyReadersGroup)
		}
		all = append(all, change.SetOwner{Path: n.Paths.Key("sa"), GID: readers,
			Name: "group " + keyReadersGroup, Mode: 0o640})
	}
	return all, nil
}

func missingAccountError(name string) error {
	return problem.New(fmt.Errorf("user or group %s not found on this machine", name),
		"check /etc/passwd and /etc/group")
}

// privateFiles are the files that only this component reads.
func privateFiles(component string, n *node.Node, h Host) []string {
	p := n.Paths
	switch component {
	case Etcd:
		return []string{p.Key("etcd/server"), p.Key("etcd/peer")}
	case release.APIServer:
		files := []string{p.Certificate(pki.ServiceAccountPublicKey), p.Key("apiserver"),
			p.Key("apiserver-kubelet-client"), p.Key("front-proxy-client")}
		if n.Cluster.Etcd.External == nil {
			files = append(files, p.Key("apiserver-etcd-client"))
		}
		return files
	case release.ControllerManager:
		files := []string{p.Kubeconfig("controller-manager.conf")}
		if !h.ExternalCA {
			files = append(files, p.Key("ca"))
		}
		return files
	default:
		return []string{p.Kubeconfig("scheduler.conf")}
	}
}

// runAsAccount makes a component's Pod run as its user, without capabilities that it does not
// need.
func runAsAccount(pod *corev1.Pod, h Host) error {
	uid, gid, ok := h.Accounts.User(accountName(pod.Name))
	if !ok {
		return missingAccountError(accountName(pod.Name))
	}
	c := pod.Spec.SecurityContext
	c.RunAsUser, c.RunAsGroup = new(int64(uid)), new(int64(gid))
	if readers, ok := h.Accounts.GroupID(keyReadersGroup); ok && readsServiceAccountKey(pod.Name) {
		c.SupplementalGroups = []int64{int64(readers)}
	}
	container := &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	if pod.Name == release.APIServer {
		// its port may be below 1024
		container.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	} else {
		container.AllowPrivilegeEscalation = new(false)
	}
	pod.Spec.Containers[0].SecurityContext = container
	return nil
}
