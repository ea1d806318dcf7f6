package portable

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

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
	"kubeadm/internal/world/neterror"
)

// Bounds of one request.
const (
	fetchLimit = 10 * time.Second
	bodyLimit  = 1 << 20
)

// Fetch sends one GET request, without credentials other than a client certificate.
func (m Machine) Fetch(ctx context.Context, req state.Request) (state.Response, error) {
	u, err := url.Parse(req.URL)
	if err != nil {
		return state.Response{}, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return state.Response{}, fmt.Errorf("%q is not an http or https URL", req.URL)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if req.Loopback {
		// The certificate is self-signed, so the request must not leave this machine.
		transport.TLSClientConfig, err = &tls.Config{InsecureSkipVerify: true},
			checkOwnAddress(u.Hostname())
	} else {
		transport.Proxy = http.ProxyFromEnvironment
		transport.TLSClientConfig, err = newTLSConfig(req)
	}
	if err != nil {
		return state.Response{}, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	if req.Loopback || req.Cert != nil {
		client.CheckRedirect = returnRedirect
	}
	return httpGet(ctx, client, req.URL)
}

// httpGet reads one response within the limits of time and size.
func httpGet(ctx context.Context, client *http.Client, address string) (state.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit,
		fmt.Errorf("no answer within %s", fetchLimit))
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
		failed.URL = redactURL(failed.URL)
	}
	if hint := world.ProxyHint(err); hint != "" {
		return state.Response{}, problem.New(untrusted.Error(err), hint)
	}
	if err != nil {
		return state.Response{}, untrusted.Error(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit+1))
	if err != nil {
		return state.Response{},
			fmt.Errorf("reading the answer of %s: %w", redactURL(address), untrusted.Error(err))
	}
	if len(body) > bodyLimit {
		return state.Response{},
			fmt.Errorf("the answer of %s is longer than %d bytes", redactURL(address), bodyLimit)
	}
	return state.Response{Status: answer.StatusCode, Body: body, RetryAfter: world.AskedPause(answer)}, nil
}

// redactURL returns a URL without a password and without the query, which may contain a signature.
func redactURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func newTLSConfig(req state.Request) (*tls.Config, error) {
	config := &tls.Config{}
	if req.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(req.CA) {
			return nil, errors.New("the CA for the request contains no PEM certificate")
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

// returnRedirect makes the client return a redirect response instead of following it.
func returnRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// checkRedirect allows up to ten redirects, but none from https to http.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("redirected ten times")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirected from https to %s: %w", redactURL(req.URL.String()),
			state.ErrRedirected)
	}
	return nil
}

// ServedCertificate ends the handshake when the server has presented its certificate.
func (m Machine) ServedCertificate(ctx context.Context, address string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit,
		fmt.Errorf("no answer within %s", fetchLimit))
	defer cancel()
	seen := errors.New("the certificate was presented")
	var leaf *x509.Certificate
	dialer := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, // nothing is sent to the server
		VerifyConnection: func(c tls.ConnectionState) error {
			leaf = c.PeerCertificates[0]
			return seen
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil { // a server must present a certificate, so the handshake has failed
		return nil, errors.Join(errors.New("the server does not present a certificate"), conn.Close())
	}
	switch {
	case errors.Is(err, seen):
		return leaf, nil
	case neterror.IsConnectionRefused(err):
		err = fmt.Errorf("%w: %w", state.ErrNoServer, err)
	}
	return nil, err
}

// ServerTime reads the header Date, without credentials and without verification.
func (m Machine) ServerTime(ctx context.Context, address string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit,
		fmt.Errorf("no answer within %s", fetchLimit))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+address+"/livez", nil)
	if err != nil {
		return time.Time{}, err
	}
	req.Header.Set("User-Agent", "kubeadm")
	client := &http.Client{CheckRedirect: returnRedirect, Transport: &http.Transport{
		DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(req)
	if err != nil {
		return time.Time{}, untrusted.Error(err)
	}
	defer answer.Body.Close()
	return http.ParseTime(answer.Header.Get("Date"))
}

// checkOwnAddress returns an error for a host that is not this machine.
func checkOwnAddress(host string) error {
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
	return fmt.Errorf("%q is not an address of this machine: its certificate must be verified",
		host)
}
