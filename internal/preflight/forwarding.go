package preflight

import (
	"context"
	"net/netip"
	"strings"

	"kubeadm/internal/state"
)

// newForwardingChecks checks that the kernel forwards packets of each IP family of the addresses
// and subnets. Texts that are neither are skipped.
func newForwardingChecks(networks []string) []Check {
	var v4, v6 bool
	for _, text := range networks {
		address, _, _ := strings.Cut(text, "/")
		if ip, err := netip.ParseAddr(address); err == nil {
			v4, v6 = v4 || ip.Unmap().Is4(), v6 || !ip.Unmap().Is4()
		}
	}
	var settings []string // paths below /proc/sys
	if v4 {
		settings = append(settings, "net/ipv4/ip_forward")
	}
	if v6 {
		settings = append(settings, "net/ipv6/conf/default/forwarding")
	}
	var list []Check
	for _, name := range settings {
		path := "/proc/sys/" + name
		list = append(list, Check{Name: "FileContent-" + strings.ReplaceAll(path, "/", "-"),
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				text, err := r.ReadFile(ctx, path)
				if err != nil {
					rep.Fail("load the kernel module of this setting, if there is one",
						"reading %s: %v", path, err)
				} else if !strings.HasPrefix(string(text), "1") {
					setting := strings.ReplaceAll(name, "/", ".") + "=1"
					rep.Fail(`run "sysctl -w `+setting+`" and write `+setting+
						` to a file in /etc/sysctl.d`,
						"%s is %q and must be 1, else this machine forwards no packets of Pods",
						path, strings.TrimSpace(string(text)))
				}
			}})
	}
	return list
}
