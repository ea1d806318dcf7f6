package linux

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"kubeadm/internal/change"
)

// Bounds of one request.
const (
	fetchLimit = 10 * time.Second
	bodyLimit  = 1 << 20
)

// Fetch makes one GET request without credentials other than a client certificate.
func (m Machine) Fetch(ctx context.Context, req change.Request) (change.Response, error) {
	u, err := url.Parse(req.URL)
	if err != nil {
		return change.Response{}, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return change.Response{}, fmt.Errorf("%q is not a http or https URL", req.URL)
	}
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	if req.Loopback {
		if err := ownAddress(u.Hostname()); err != nil {
			return change.Response{}, err
		}
		transport.Proxy = nil
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // nobody signed it; it never leaves this machine
	} else if transport.TLSClientConfig, err = tlsConfig(req); err != nil {
		return change.Response{}, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: redirect}
	if req.Loopback || req.Cert != nil {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return get(ctx, client, req.URL)
}

// get reads one answer within time and size.
func get(ctx context.Context, client *http.Client, address string) (change.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("no answer within %s", fetchLimit))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return change.Response{}, err
	}
	req.Header.Set("User-Agent", "kubeadm")
	req.Header.Set("Accept", "application/json, */*;q=0.8")
	answer, err := client.Do(req)
	if err != nil {
		return change.Response{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit+1))
	if err != nil {
		return change.Response{}, fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	if len(body) > bodyLimit {
		return change.Response{}, fmt.Errorf("the answer of %s is longer than %d bytes", address, bodyLimit)
	}
	return change.Response{Status: answer.StatusCode, Body: body}, nil
}

func tlsConfig(req change.Request) (*tls.Config, error) {
	config := &tls.Config{}
	if req.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(req.CA) {
			return nil, errors.New("the CA for the request holds no PEM certificate")
		}
	}
	if req.Cert != nil {
		pair, err := tls.X509KeyPair(req.Cert, req.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate for the request: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// redirect follows a few redirections, but never from https to http.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("redirected ten times")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirected from https to %s, which nobody vouches for", req.URL.Redacted())
	}
	return nil
}

// ownAddress refuses a host that is not this machine.
func ownAddress(host string) error {
	if host == "localhost" {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return nil
	}
	own, errOwn := net.InterfaceAddrs()
	if err == nil && errOwn == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip.AsSlice())
	}) {
		return nil
	}
	return errors.Join(errOwn, fmt.Errorf("%q is not an address of this machine: its certificate must be verified", host))
}
