package node

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// HostOf returns the host of the URL of a server or a member; empty if it has none.
func HostOf(server string) string {
	if u, err := url.Parse(server); err == nil {
		return u.Hostname()
	}
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	return host
}

// SameHost reports whether two hosts are the same DNS name or address, however they are written.
func SameHost(a, b string) bool {
	x, notA := netip.ParseAddr(a)
	y, notB := netip.ParseAddr(b)
	if notA == nil && notB == nil {
		return x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(a, b)
}

// HasHost reports whether a list of hosts has one.
func HasHost(hosts []string, host string) bool {
	return slices.ContainsFunc(hosts, func(h string) bool { return SameHost(h, host) })
}
