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
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Bounds of one request.
const (
	fetchLimit = 10 * time.Second
	bodyLimit  = 1 << 20
)

// Fetch makes one GET request without credentials other than a client certificate.
func (m Machine) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	u, err := url.Parse(req.URL)
	if err != nil {
		return state.Response{}, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return state.Response{}, fmt.Errorf("%q is not a http or https URL", req.URL)
	}
	transport, err := transportFor(req, u.Hostname())
	if err != nil {
		return state.Response{}, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: redirect}
	if req.Loopback || req.Cert != nil {
		client.CheckRedirect = stay
	}
	return get(ctx, client, req.URL)
}

func transportFor(req state.Request, host string) (*http.Transport, error) {
	if req.Loopback {
		// Nobody signed the certificate, so it must be certain that nothing leaves this machine.
		return &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, ownAddress(host)
	}
	config, err := tlsConfig(req)
	return &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}, err
}

// get reads one answer within time and size.
func get(ctx context.Context, client *http.Client, address string) (state.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("no answer within %s", fetchLimit))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return state.Response{}, err
	}
	req.Header.Set("User-Agent", "kubeadm")
	req.Header.Set("Accept", "application/json, */*;q=0.8")
	answer, err := client.Do(req)
	var failed *url.Error
	if errors.As(err, &failed) {
		failed.URL = shown(failed.URL)
	}
	if err != nil {
		return state.Response{}, untrusted.Error(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit+1))
	if err != nil {
		return state.Response{}, fmt.Errorf("reading the answer of %s: %w", shown(address), untrusted.Error(err))
	}
	if len(body) > bodyLimit {
		return state.Response{}, fmt.Errorf("the answer of %s is longer than %d bytes", shown(address), bodyLimit)
	}
	return state.Response{Status: answer.StatusCode, Body: body}, nil
}

// shown is an address without what may be secret: a password, and the query, which may hold a signature.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func tlsConfig(req state.Request) (*tls.Config, error) {
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

// stay shows a redirection as the answer that it is.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// redirect follows a few redirections, but never from https to http.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("redirected ten times")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirected from https to %s: %w", shown(req.URL.String()), state.ErrRedirected)
	}
	return nil
}

// ownAddress refuses a host that is not this machine.
func ownAddress(host string) error {
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.String() == host {
			return nil
		}
	}
	return fmt.Errorf("%q is not an address of this machine: its certificate must be verified", host)
}
