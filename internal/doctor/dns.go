package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// lookupLimit is the time for a lookup.
const lookupLimit = 2 * time.Second

func checkEndpointName(ctx context.Context, r state.Reader, rep *preflight.Report,
	m *machine) {
	kubeconfig := m.cluster.as.Kubeconfig
	endpoint, err := endpointOf(ctx, r, kubeconfig)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	host, _, err := net.SplitHostPort(endpoint)
	if _, isName := netip.ParseAddr(host); err != nil || isName == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := r.Lookup(ctx, host)
	if err == nil && len(found) > 0 {
		return
	}
	rep.Add(preflight.Finding{Severity: preflight.Error,
		Text:     fmt.Sprintf("the API server's name, %q, cannot be resolved", host),
		Evidence: fmt.Sprintf("%s: %v", kubeconfig, err),
		Remedy:   "add the name to DNS or to " + m.Platform.HostsFile() + ", or fix the name servers of this machine"})
}
