package linux

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// lookupLimit leaves a resolver time to turn from a dead name server to the next one.
const lookupLimit = 12 * time.Second

// Lookup resolves a host name.
func (m Machine) Lookup(ctx context.Context, host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	return net.DefaultResolver.LookupHost(ctx, host)
}

// Proxy tells through which proxy an HTTPS request to a host would go, by the environment
// of this process (HTTPS_PROXY, NO_PROXY with names, addresses and CIDRs); empty for none.
func (m Machine) Proxy(_ context.Context, host string) (string, error) {
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		host = "[" + host + "]"
	}
	target := &url.URL{Scheme: "https", Host: host}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		// Go repeats the whole address, password and all.
		return "", errors.New("HTTPS_PROXY is no URL such as http://proxy.example:3128, or has characters that must be escaped in a URL")
	}
	if proxy == nil {
		return "", nil
	}
	// Neither the user nor, where a slash is missing in a malformed address, what Go takes for its path.
	return proxy.Scheme + "://" + proxy.Host, nil
}
