package node

import (
	"net"
	"net/url"
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
