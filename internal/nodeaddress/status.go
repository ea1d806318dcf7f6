package nodeaddress

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Status says where this node has which address.
type Status struct {
	Node string `json:"node"`
	// Addresses are those of the network interfaces.
	Addresses []string `json:"addresses"`
	// From are previous addresses that the certificates have until "address finish".
	From []string `json:"from,omitempty"`
	// MovingTo is the address to which an interrupted command was moving the node.
	MovingTo string `json:"movingTo,omitempty"`

	Places []Place   `json:"places"`
	Pods   []HostPod `json:"pods,omitempty"`
}

// Place is where an address of this node is written.
type Place struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// IsMissing is set if no network interface has the address.
	IsMissing bool `json:"missing,omitempty"`
}

// ReadStatus reads where this node has which address. What an API server would have to say is left out, with a
// warning, if none answers.
func ReadStatus(ctx context.Context, e *engine.Env, here existing.Machine) (s Status, err error) {
	s.Node = here.Name
	own, err := e.World.Addresses(ctx)
	if err != nil {
		return s, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	for _, a := range own {
		s.Addresses = append(s.Addresses, fmt.Sprintf("%s (%s)", a.IP, untrusted.Line(a.Interface)))
	}
	add := func(name, address string) {
		if address != "" {
			s.Places = append(s.Places, Place{Name: name, Address: address, IsMissing: !IsOn(own, address)})
		}
	}
	if here.Role == node.ControlPlane {
		if err := addPlane(ctx, e.World, here.Paths, add); err != nil {
			return s, err
		}
		record, err := ReadRecord(ctx, e.World, here.Paths)
		if err != nil {
			return s, err
		}
		if s.From = record.From; record.To != here.Address {
			s.MovingTo = record.To
		}
	}
	set, err := ReadNodeIPs(ctx, e.World, here.Paths)
	if err != nil {
		return s, err
	}
	for _, ip := range set {
		add("kubelet --node-ip", ip)
	}
	n, err := ReadNode(ctx, e.World, here.As, here.Name)
	if err == nil {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				add("Node", untrusted.Line(a.Address))
			}
		}
		s.Pods, err = ListHostPods(ctx, e.World, here.As, n)
	}
	if err != nil {
		e.Warn("what the cluster knows of this node is not shown: %v", err)
	}
	return s, context.Cause(ctx)
}

// addPlane adds the places on a control plane node.
func addPlane(ctx context.Context, r state.Reader, p node.Paths, add func(name, address string)) error {
	for _, of := range []struct{ component, argument string }{
		{release.APIServer, "advertise-address"}, {manifest.Etcd, "advertise-client-urls"},
		{manifest.Etcd, "initial-advertise-peer-urls"},
	} {
		if exists, err := state.Exists(ctx, r, p.Manifest(of.component)); err != nil || !exists {
			if err != nil {
				return err
			}
			continue
		}
		pod, err := readPod(ctx, r, p, of.component)
		if err != nil {
			return err
		}
		value, _, _ := strings.Cut(manifest.ArgumentValue(pod, of.argument), ",")
		if host := node.HostOf(value); host != "" {
			value = host
		}
		add(of.component+" --"+of.argument, untrusted.Line(value))
	}
	for _, k := range pki.KubeconfigProfiles() {
		data, err := state.ReadOptional(ctx, r, p.Kubeconfig(k.File))
		if err != nil {
			return err
		}
		kubeconfig, err := pki.ParseKubeconfig(data)
		if data == nil || err != nil {
			continue
		}
		if cluster, err := kubeconfig.CurrentCluster(); err == nil {
			add(k.File, addressOf(cluster.Server))
		}
	}
	return nil
}

// addressOf is the host of a URL if it is an address.
func addressOf(server string) string {
	if ip, err := netip.ParseAddr(node.HostOf(server)); err == nil {
		return ip.String()
	}
	return ""
}
