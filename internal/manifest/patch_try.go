package manifest

import (
	"errors"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Try applies the patches to all that this machine will have of what they are for, and tells which do not apply. Those for
// what it will not have are of no concern to it. Who the other members are of an etcd that is joined is known only later: a
// failing test (RFC 6902) of what names them does not count here. All other operations do, and so does the test in the join itself.
func (p Patches) Try(n *node.Node, h Host) error {
	if len(p.patches) == 0 {
		return nil
	}
	p.later = someMember
	h, err := foreseen(n, h)
	if err != nil {
		return err
	}
	_, _, err = KubeletConfigFile(n, h, p)
	errs := []error{err}
	if ok, _ := node.IsControlPlane(n); ok {
		errs = append(errs, p.tryPods(n, h))
	}
	if !n.Joins() {
		errs = append(errs, p.tryAddons(n, h))
	}
	return errors.Join(errs...)
}

// someMember stands for the names of members that are not known yet. No Node can be called so.
const someMember = "?member?"

// foreseen is the host as it will be once the accounts of a rootless control plane are made, and etcd takes this machine in.
func foreseen(n *node.Node, h Host) (_ Host, err error) {
	if Rootless(n) {
		if h.Accounts, err = SystemAccounts().Edit(h.Accounts); err != nil {
			return h, err
		}
	}
	if n.Joins() { // who the others are makes no difference to where things stand in the file
		h.Members = []state.Member{{ID: 1, Name: someMember, PeerURLs: []string{etcdURL("https", n.Loopback(), 2380)}}, {ID: 2, PeerURLs: []string{n.PeerURL()}}}
	}
	return h, nil
}

func (p Patches) tryPods(n *node.Node, h Host) error {
	components := Components()
	if n.Cluster.Etcd.External == nil {
		components = append([]string{Etcd}, components...)
	}
	var errs []error
	for _, c := range components {
		_, err := StaticPodFile(c, n, h, p)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// TryPod applies the patches of one component as Try does.
func (p Patches) TryPod(component string, n *node.Node, h Host) error {
	if len(p.Origins(component)) == 0 {
		return nil
	}
	p.later = someMember
	h, err := foreseen(n, h)
	if err != nil {
		return err
	}
	_, err = StaticPodFile(component, n, h, p)
	return err
}

func (p Patches) tryAddons(n *node.Node, h Host) error {
	var errs []error
	if !n.Cluster.DNS.Disabled {
		_, err := NewCoreDNS(n, DNSReplicas, p)
		errs = append(errs, err)
	}
	if !n.Cluster.Proxy.Disabled {
		_, err := NewKubeProxy(n, h, p)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
