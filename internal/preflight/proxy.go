package preflight

import (
	"context"
	"fmt"
	"net/netip"

	"kubeadm/internal/state"
)

// newProxyCheck warns if requests to a host of the cluster would go through a proxy.
func newProxyCheck(host string) Check {
	return Check{Name: "HTTPProxy", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		warnOfProxy(ctx, r, rep, host, host)
	}}
}

// newCIDRProxyChecks does so for the first address of each subnet, which stands for all of them.
func newCIDRProxyChecks(cidrs []string) []Check {
	var list []Check
	for _, cidr := range cidrs {
		if cidr == "" {
			continue
		}
		list = append(list, Check{Name: "HTTPProxyCIDR",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				first, err := firstAddress(cidr)
				if err != nil {
					rep.Fail("write it like 10.96.0.0/12", "%v", err)
					return
				}
				warnOfProxy(ctx, r, rep, cidr, first.String())
			}})
	}
	return list
}

func firstAddress(cidr string) (netip.Addr, error) {
	subnet, err := netip.ParsePrefix(cidr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not a subnet", cidr)
	}
	first := subnet.Masked().Addr().Next()
	if !subnet.Contains(first) {
		return netip.Addr{}, fmt.Errorf("subnet %q has no room for an address", cidr)
	}
	return first, nil
}

func warnOfProxy(ctx context.Context, r state.Reader, rep *Report, what, host string) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	found, err := r.Proxy(ctx, host)
	if err != nil {
		rep.Fail("correct HTTPS_PROXY and NO_PROXY", "finding the proxy for %s: %v", what, err)
		return
	}
	if found != "" {
		rep.Warn("add "+what+" to NO_PROXY",
			"connections to %s would go through the proxy %s, which rarely works inside a cluster",
			what, found)
	}
}
