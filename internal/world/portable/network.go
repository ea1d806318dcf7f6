package portable

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
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
