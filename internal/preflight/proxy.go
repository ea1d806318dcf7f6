package preflight

import (
	"context"
	"net/netip"

	"kubeadm/internal/state"
)

// newProxyChecks warns if requests to a host of the cluster, or to one of its subnets, would go
// through a proxy. The first address of a subnet stands for all of them.
func newProxyChecks(host string, cidrs []string) []Check {
	list := []Check{{Name: "HTTPProxy",
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			warnOfProxy(ctx, r, rep, host, host)
		}}}
	for _, cidr := range cidrs {
		if cidr == "" {
			continue
		}
		list = append(list, Check{Name: "HTTPProxyCIDR",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				const remedy = "write it like 10.96.0.0/12"
				subnet, err := netip.ParsePrefix(cidr)
				if err != nil {
					rep.Fail(remedy, "%q is not a subnet", cidr)
					return
				}
				first := subnet.Masked().Addr().Next()
				if !subnet.Contains(first) {
					rep.Fail(remedy, "subnet %q is too small to contain an address", cidr)
					return
				}
				warnOfProxy(ctx, r, rep, cidr, first.String())
			}})
	}
	return list
}

// warnOfProxy warns if requests to a host would go through a proxy; what stands for it in texts.
func warnOfProxy(ctx context.Context, r state.Reader, rep *Report, what, host string) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	found, err := r.Proxy(ctx, host)
	if err != nil {
		rep.Fail("fix HTTPS_PROXY and NO_PROXY", "finding the proxy for %s: %v", what, err)
		return
	}
	if found != "" {
		rep.Warn("add "+what+" to NO_PROXY",
			"connections to %s would go through the proxy %s, which rarely works inside a cluster",
			what, found)
	}
}
