package portable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"kubeadm/internal/state"
)

// lookupLimit is long enough for the resolver to try a second name server.
const lookupLimit = 12 * time.Second

// Lookup resolves a host name.
func (m Machine) Lookup(ctx context.Context, host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	return net.DefaultResolver.LookupHost(ctx, host)
}

// Proxy returns the proxy of an HTTPS request to a host according to HTTPS_PROXY and NO_PROXY;
// empty for none.
func (m Machine) Proxy(_ context.Context, host string) (string, error) {
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		host = "[" + host + "]"
	}
	target := &url.URL{Scheme: "https", Host: host}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		// Go's error repeats the whole URL with its password.
		return "", errors.New(
			"HTTPS_PROXY is not a URL such as http://proxy.example:3128, or has characters that must be escaped in a URL")
	}
	if proxy == nil {
		return "", nil
	}
	// Without the user, and without the path: a password in a malformed URL may be part of it.
	return proxy.Scheme + "://" + proxy.Host, nil
}

// Addresses lists the global unicast addresses of all interfaces that are up. route is the place of an
// interface among those with a default route, -1 for none: their addresses come first, those of the
// loopback interface last.
func Addresses(route func(net.Interface) int) ([]state.Address, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var found []state.Address
	rank := map[string]int{} // by interface
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		isLoopback := i.Flags&net.FlagLoopback != 0
		if rank[i.Name] = route(i); rank[i.Name] < 0 {
			rank[i.Name] = len(all)
			if isLoopback {
				rank[i.Name]++
			}
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				bits, _ := n.Mask.Size()
				found = append(found, state.Address{IP: n.IP.String(), Bits: bits, Interface: i.Name,
					DefaultRoute: rank[i.Name] < len(all), Loopback: isLoopback})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b state.Address) int {
		return cmp.Compare(rank[a.Interface], rank[b.Interface])
	})
	return found, nil
}
