package manifest

import (
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// keyReaders may read the key that signs service accounts' tokens.
const keyReaders = "kubeadm-sa-key-readers"

// accountOf is the user, and his group, that a component runs as where the control plane is rootless.
func accountOf(component string) string {
	return map[string]string{
		Etcd:                      "kubeadm-etcd",
		release.APIServer:         "kubeadm-kas",
		release.ControllerManager: "kubeadm-kcm",
		release.Scheduler:         "kubeadm-ks",
	}[component]
}

// readsKey tells whether a component reads the key that signs service accounts' tokens.
func readsKey(component string) bool {
	return component == release.APIServer || component == release.ControllerManager
}

// SystemAccounts are the users and groups of a rootless control plane.
func SystemAccounts() change.SetAccounts {
	c := change.SetAccounts{Dir: "/etc"}
	readers := change.Group{Name: keyReaders}
	for _, component := range append([]string{Etcd}, Components()...) {
		c.Users = append(c.Users, accountOf(component))
		if readsKey(component) {
			readers.Members = append(readers.Members, accountOf(component))
		}
	}
	c.Groups = []change.Group{readers}
	return c
}

// Rootless tells whether the components of the control plane are to run as users of their own.
func Rootless(n *node.Node) bool {
	return release.Enabled(n.Cluster.FeatureGates, release.RootlessControlPlane)
}

// Accounts makes the users whom components run as; none where that is root.
func Accounts(n *node.Node) []change.Change {
	if !Rootless(n) {
		return nil
	}
	return []change.Change{SystemAccounts()}
}

// Owners gives a component the files that it alone reads or writes; nothing where it is root.
func Owners(component string, n *node.Node, h Host) ([]change.Change, error) {
	if !Rootless(n) {
		return nil, nil
	}
	name := accountOf(component)
	uid, gid, ok := h.Accounts.User(name)
	if !ok {
		return nil, noAccount(name)
	}
	var all []change.Change
	if component == Etcd {
		all = append(all, change.SetOwner{Path: n.Cluster.Etcd.DataDir, UID: uid, GID: gid, Name: name, Below: true})
	}
	for _, path := range ownFiles(component, n, h) {
		all = append(all, change.SetOwner{Path: path, UID: uid, GID: gid, Name: name, Mode: 0o600})
	}
	if readsKey(component) {
		readers, ok := h.Accounts.GroupID(keyReaders)
		if !ok {
			return nil, noAccount(keyReaders)
		}
		all = append(all, change.SetOwner{Path: n.Paths.Key("sa"), GID: readers, Name: "group " + keyReaders, Mode: 0o640})
	}
	return all, nil
}

func noAccount(name string) error {
	return problem.New("", fmt.Errorf("this machine has no account %s", name), "see whether /etc/passwd and /etc/group are damaged")
}

// ownFiles are the files that a component alone reads.
func ownFiles(component string, n *node.Node, h Host) []string {
	p := n.Paths
	switch component {
	case Etcd:
		return []string{p.Key("etcd/server"), p.Key("etcd/peer")}
	case release.APIServer:
		files := []string{p.PublicKey("sa"), p.Key("apiserver"), p.Key("apiserver-kubelet-client"), p.Key("front-proxy-client")}
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

// OwnersHelp says what to do where a file is not there that is to be given away.
func OwnersHelp(component string, n *node.Node, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	hint := "run the certs phase and the kubeconfig phase first"
	if n.Joins() {
		hint = "run the control-plane-prepare/certs phase and the control-plane-prepare/kubeconfig phase first"
	}
	return problem.New("giving "+component+" its files", err, hint)
}

// demote makes a component's Pod run as its user, without any right of root's that it can do without.
func demote(pod *corev1.Pod, h Host) error {
	uid, gid, ok := h.Accounts.User(accountOf(pod.Name))
	if !ok {
		return noAccount(accountOf(pod.Name))
	}
	c := pod.Spec.SecurityContext
	c.RunAsUser, c.RunAsGroup = new(int64(uid)), new(int64(gid))
	if readers, ok := h.Accounts.GroupID(keyReaders); ok && readsKey(pod.Name) {
		c.SupplementalGroups = []int64{int64(readers)}
	}
	container := &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	if pod.Name == release.APIServer {
		container.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"} // its port may be below 1024
	} else {
		container.AllowPrivilegeEscalation = new(false)
	}
	pod.Spec.Containers[0].SecurityContext = container
	return nil
}
