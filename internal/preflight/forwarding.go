package preflight

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// SysctlChanges set parameters of the kernel now and at each boot; see sysctl.d(5). Each parameter has
// a file of its own, whose name comes after those with numbers.
func SysctlChanges(sets ...change.SetSysctl) []change.Change {
	var list []change.Change
	for _, set := range sets {
		list = append(list, set, change.WriteFile{Path: sysctlFile(set), Mode: 0o644,
			Data: fmt.Appendf(nil, "# written by kubeadm doctor --fix\n%s = %s\n", set.Name, set.Value)})
	}
	return list
}

// SysctlCommand is the shell command that does what SysctlChanges do.
func SysctlCommand(sets ...change.SetSysctl) string {
	var list []string
	for _, set := range sets {
		list = append(list, fmt.Sprintf("sysctl -w %[1]s=%[2]s && echo %[1]s=%[2]s >%[3]s", set.Name,
			set.Value, sysctlFile(set)))
	}
	return strings.Join(list, " && ")
}

func sysctlFile(set change.SetSysctl) string {
	return "/etc/sysctl.d/kubeadm-" + set.Name + ".conf"
}

// Forwarding returns the checks that the kernel forwards packets of each IP family of the addresses and
// subnets. Texts that are neither are skipped.
func Forwarding(networks []string) []Check {
	var v4, v6 bool
	for _, text := range networks {
		address, _, _ := strings.Cut(text, "/")
		if ip, err := netip.ParseAddr(address); err == nil {
			v4, v6 = v4 || ip.Unmap().Is4(), v6 || !ip.Unmap().Is4()
		}
	}
	var list []Check
	if v4 {
		list = append(list, newForwardingCheck("", "net.ipv4.ip_forward"))
	}
	if v6 {
		// The parameter that upstream checks, and that names the check, is for interfaces that are created
		// later; that of all interfaces is for those that exist
		// (https://docs.kernel.org/networking/ip-sysctl.html).
		list = append(list, newForwardingCheck("interfaces with accept_ra=1 will then ignore router "+
			"advertisements, from which they may get their address and default route: set accept_ra=2 on them first",
			"net.ipv6.conf.default.forwarding", "net.ipv6.conf.all.forwarding"))
	}
	return list
}

// newForwardingCheck checks a parameter of the kernel. Others are set with it. The effect is what else
// follows from setting them.
func newForwardingCheck(effect, name string, others ...string) Check {
	sets := []change.SetSysctl{{Name: name, Value: "1"}}
	words := name + "=1"
	for _, other := range others {
		sets = append(sets, change.SetSysctl{Name: other, Value: "1"})
		words += " " + other + "=1"
	}
	path := sets[0].Path()
	return Check{Name: "FileContent-" + strings.ReplaceAll(path, "/", "-"),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			text, err := r.ReadFile(ctx, path)
			if err != nil {
				rep.Fail("load the kernel module of this setting, if there is one", "reading %s: %v", path, err)
				return
			}
			if strings.HasPrefix(string(text), "1") {
				return
			}
			f := Finding{Severity: Error,
				Text: fmt.Sprintf("%s is %q but must be 1 for this machine to forward packets of Pods",
					path, strings.TrimSpace(string(text))),
				Remedy: fmt.Sprintf(`run "sysctl -w %s" and write %s to a file in /etc/sysctl.d`, words,
					strings.ReplaceAll(words, " ", " and ")),
				Command: SysctlCommand(sets...), Changes: SysctlChanges(sets...)}
			if effect != "" {
				f.Remedy += "; " + effect
			}
			rep.Add(f)
		}, Why: "the nodes' kernels route packets between Pods on different nodes"}
}
