package manifest

import (
	"errors"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// Check checks, before anything is written, that the patches apply to the files and objects that
// this machine will create. Patches for other targets are ignored. The members of the etcd
// cluster that is joined are not known yet: a failing JSON patch test of what contains them is
// ignored here, but not in the join itself.
func (p Patches) Check(n *node.Node, h Host) error {
	if len(p.patches) == 0 {
		return nil
	}
	p.unknownText = unknownMember
	h, err := predictHost(n, h)
	if err != nil {
		return err
	}
	_, _, err = KubeletConfigFile(n, h, p)
	errs := []error{err}
	if ok, _ := node.IsControlPlane(n); ok {
		components := Components()
		if n.Cluster.Etcd.External == nil {
			components = append([]string{Etcd}, components...)
		}
		for _, c := range components {
			_, err := StaticPodFile(c, n, h, p)
			errs = append(errs, err)
		}
	}
	if !n.IsJoining() && !n.Cluster.DNS.Disabled {
		_, err := NewCoreDNS(n, DNSReplicas, p)
		errs = append(errs, err)
	}
	if !n.IsJoining() && !n.Cluster.Proxy.Disabled {
		_, err := NewKubeProxy(n, h, p)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unknownMember is the placeholder for members that are not known yet. It is not a valid Node
// name.
const unknownMember = "?member?"

// predictHost is the host as it will be after the accounts of a rootless control plane are created
// and this machine is an etcd member.
func predictHost(n *node.Node, h Host) (_ Host, err error) {
	if IsRootless(n) {
		if h.Accounts, err = SystemAccounts().Edit(h.Accounts); err != nil {
			return h, err
		}
	}
	if n.IsJoining() { // the number of members does not change the structure of the file
		h.Members = []state.Member{{ID: 1, Name: unknownMember,
			PeerURLs: []string{etcdURL("https", n.LoopbackAddress(), 2380)}},
			{ID: 2, PeerURLs: []string{n.PeerURL()}}}
	}
	return h, nil
}

// CheckPod checks the patches of one component as Check does.
func (p Patches) CheckPod(component string, n *node.Node, h Host) error {
	if len(p.Origins(component)) == 0 {
		return nil
	}
	p.unknownText = unknownMember
	h, err := predictHost(n, h)
	if err != nil {
		return err
	}
	_, err = StaticPodFile(component, n, h, p)
	return err
}
