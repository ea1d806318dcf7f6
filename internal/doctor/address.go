package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"kubeadm/internal/nodeaddress"
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
		Remedy: "give the machine the address again, or bring the node to the one that it has now, one control plane node " +
			"after the other", Command: "kubeadm address change"})
}

// checkNodeIP finds a kubelet that is told an address which is on no interface: it keeps the Node as it was.
func checkNodeIP(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	set, err := nodeaddress.ReadNodeIPs(ctx, r, m.Paths)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	all, err := r.Addresses(ctx)
	if err != nil {
		rep.Skip("the addresses of this machine cannot be read: %v", err)
		return
	}
	for _, text := range set {
		wanted, err := netip.ParseAddr(text)
		if err != nil || wanted.IsUnspecified() || nodeaddress.IsOn(all, text) {
			continue
		}
		f := preflight.Finding{Severity: preflight.Error,
			Text:   fmt.Sprintf("the kubelet is told that its address is %s, which is on no interface of this machine", wanted),
			Remedy: "give the machine the address again, or bring the node to the one that it has now", Command: "kubeadm address change"}
		if m.isControlPlane() && text != m.Address { // that of its API server may be right
			f.Remedy, f.Command = "tell it the address that the machine has: kubeadm reconfigure node --kubelet-arg node-ip=ADDRESS", ""
		}
		rep.Add(f)
	}
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
