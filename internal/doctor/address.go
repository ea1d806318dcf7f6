package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkAdvertiseAddress finds a control plane node that has been given another address: that in its manifests
// is on no interface.
func checkAdvertiseAddress(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	wanted, err := netip.ParseAddr(m.Address)
	if err != nil {
		rep.Skip("the address of this node's API server is not known")
		return
	}
	all, err := r.Addresses(ctx)
	if err != nil {
		rep.Skip("the addresses of this machine cannot be read: %v", err)
		return
	}
	var has []string
	for _, a := range all {
		if ip, err := netip.ParseAddr(a.IP); err == nil && ip.Unmap() == wanted.Unmap() {
			return
		}
		has = append(has, a.IP)
	}
	severity := preflight.Error
	if !m.hasEtcd { // it may be behind NAT on purpose
		severity = preflight.Warning
	}
	rep.Add(preflight.Finding{Severity: severity,
		Text:     fmt.Sprintf("the address of this node's API server, %s, is on no interface of this machine", m.Address),
		Evidence: fmt.Sprintf("%s has it; the interfaces have %v", m.Paths.Manifest("kube-apiserver"), has),
		Remedy: "give the machine the address again, also as a second one; if other control plane nodes work, you can " +
			"also remove this one and join it again: kubeadm reset, kubeadm join --control-plane"})
}

// checkKubeletEndpoint finds a worker whose kubelet uses another address than the endpoint of the cluster. One on
// the machine itself is a load balancer of its own.
func checkKubeletEndpoint(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	n, err := m.cluster.stored(ctx, r)
	if m.cluster.skipOnError(rep, err) || n.Cluster.Endpoint == "" {
		return
	}
	uses, err := endpointOf(ctx, r, m.Paths.KubeletKubeconfig())
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	host, _, _ := net.SplitHostPort(uses)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() || host == "localhost" {
		return
	}
	own, err := r.Addresses(ctx)
	if err != nil {
		rep.Skip("the addresses of this machine cannot be read: %v", err)
		return
	}
	stored, port, err := net.SplitHostPort(n.Cluster.Endpoint)
	if err != nil || uses == n.Cluster.Endpoint || stored == host && port == "0" ||
		slices.ContainsFunc(own, func(a state.Address) bool { return a.IP == host }) {
		return
	}
	rep.Add(preflight.Finding{Severity: preflight.Warning,
		Text: fmt.Sprintf("the kubelet of this node connects to %s, not to the endpoint of the cluster", untrusted.Line(uses)),
		Evidence: fmt.Sprintf("%s has %s; the cluster stores the endpoint %s", m.Paths.KubeletKubeconfig(),
			untrusted.Line(uses), untrusted.Line(n.Cluster.Endpoint)),
		Remedy: "unless that is a load balancer of your own, lead it to the endpoint", Command: "kubeadm endpoint follow"})
}
