package preflight

import (
	"context"
	"kubeadm/internal/state"
	"net/netip"
	"strings"
)

// forwarding wants the kernel to forward packets of each family that the addresses and
// subnets are of; what is neither is passed over.
func forwarding(networks []string) []Check {
	var v4, v6 bool
	for _, text := range networks {
		address, _, _ := strings.Cut(text, "/")
		if ip, err := netip.ParseAddr(address); err == nil {
			v4, v6 = v4 || ip.Unmap().Is4(), v6 || !ip.Unmap().Is4()
		}
	}
	var list []Check
	if v4 {
		list = append(list, sysctl("net/ipv4/ip_forward"))
	}
	if v6 {
		list = append(list, sysctl("net/ipv6/conf/default/forwarding"))
	}
	return list
}

// sysctl wants a kernel setting, named as below /proc/sys, to begin with 1.
func sysctl(name string) Check {
	path := "/proc/sys/" + name
	return Check{Name: "FileContent-" + dashed(path), Run: func(ctx context.Context, r state.Reader, rep *Report) {
		text, err := r.ReadFile(ctx, path)
		if err != nil {
			rep.Fail("load the kernel module that brings it, if there is one", "reading %s: %v", path, err)
			return
		}
		if !strings.HasPrefix(string(text), "1") {
			setting := strings.ReplaceAll(name, "/", ".") + "=1"
			rep.Fail(`run "sysctl -w `+setting+`" and write `+setting+` into a file of /etc/sysctl.d`,
				"%s is %q and must be 1, else this machine forwards no packets of Pods", path, strings.TrimSpace(string(text)))
		}
	}}
}
