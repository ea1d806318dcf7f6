package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// checkProxy checks the proxy variables of this process, as init and join do.
func checkProxy(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	host := m.Address
	if endpoint, err := endpointOf(ctx, r, m.cluster.as.Kubeconfig); err == nil && host == "" {
		host, _, _ = net.SplitHostPort(endpoint)
	}
	if host = cmp.Or(host, m.mainAddress); host != "" {
		runAll(ctx, r, rep, preflight.Proxies(host, podAndServiceCIDRs(m.Pods)))
	}
}

// podAndServiceCIDRs are those of the cluster, by the arguments of the static Pods.
func podAndServiceCIDRs(pods map[string]*corev1.Pod) []string {
	var list []string
	for component, argument := range map[string]string{
		release.APIServer: "service-cluster-ip-range", release.ControllerManager: "cluster-cidr"} {
		if pod := pods[component]; pod != nil {
			for cidr := range strings.SplitSeq(manifest.ArgumentValue(pod, argument), ",") {
				if _, err := netip.ParsePrefix(cidr); err == nil {
					list = append(list, cidr)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// checkManifestProxy checks the proxy variables of the static Pods against the addresses of the
// cluster.
func checkManifestProxy(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	hosts := []string{m.Address}
	if endpoint, err := endpointOf(ctx, r, m.cluster.as.Kubeconfig); err == nil {
		host, _, _ := net.SplitHostPort(endpoint)
		hosts = append(hosts, host)
	}
	for _, cidr := range podAndServiceCIDRs(m.Pods) {
		prefix, _ := netip.ParsePrefix(cidr)
		hosts = append(hosts, prefix.Masked().Addr().Next().String())
	}
	for _, component := range slices.Sorted(maps.Keys(m.Pods)) {
		c, err := manifest.ComponentContainer(m.Pods[component], component)
		if err != nil {
			continue // check StaticPods reports it
		}
		var proxy, noProxy string
		for _, v := range c.Env {
			switch strings.ToUpper(v.Name) {
			case "HTTPS_PROXY":
				proxy = v.Value
			case "NO_PROXY":
				noProxy = v.Value
			}
		}
		var proxied []string
		for _, host := range hosts {
			if proxy != "" && host != "" && !slices.Contains(proxied, host) &&
				!isExcluded(host, noProxy) {
				proxied = append(proxied, host)
			}
		}
		if len(proxied) > 0 {
			file := m.Paths.Manifest(component)
			rep.Add(preflight.Finding{Severity: preflight.Error,
				Text:     fmt.Sprintf("%s uses a proxy for addresses inside the cluster", component),
				Evidence: fmt.Sprintf("%s: with its HTTPS_PROXY and NO_PROXY, a proxy is used for %s", file, strings.Join(proxied, ", ")),
				Remedy:   "add them, or the subnets, to NO_PROXY in " + file})
		}
	}
}

// isExcluded reports whether NO_PROXY excludes a host from the proxy, by the rules of Go's HTTP client:
// "*", an IP address, a subnet, or a domain with what is below it; and always loopback addresses.
func isExcluded(host, noProxy string) bool {
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	if host == "localhost" || isIP && ip.IsLoopback() {
		return true
	}
	for entry := range strings.SplitSeq(noProxy, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		prefix, err := netip.ParsePrefix(entry)
		domain := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		switch {
		case entry == "":
		case entry == "*", entry == host, isIP && err == nil && prefix.Contains(ip):
			return true
		case !isIP && (host == domain && !strings.HasPrefix(entry, ".") || strings.HasSuffix(host, "."+domain)):
			return true
		}
	}
	return false
}
