package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// errNotConnected is the error of an endpoint to which there is no connection in time.
var errNotConnected = errors.New("no connection to etcd")

// connect opens a client of one endpoint, and waits up to limit until it is connected.
func connect(ctx context.Context, endpoint string, trust *tls.Config, limit time.Duration) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint},
		TLS:       trust,
		// The default logger writes to standard error; this one discards everything.
		Logger:          clientv3.NewCtxClient(ctx).GetLogger(),
		MaxUnaryRetries: 1, // Do retries
		DialTimeout:     callTimeout,
	})
	if err != nil {
		return nil, world.Permanent(fmt.Errorf("connecting: %w", err))
	}
	if err := awaitConnection(ctx, c, limit); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// call calls do within callTimeout, and closes the client.
func call(ctx context.Context, c *clientv3.Client, do func(context.Context, *clientv3.Client) error) error {
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx, c)
}

// awaitConnection waits until c is connected, or until its connection has failed: then the first call
// returns the reason.
func awaitConnection(ctx context.Context, c *clientv3.Client, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn := c.ActiveConnection()
	conn.Connect()
	for {
		switch now := conn.GetState(); now {
		case connectivity.Ready, connectivity.TransientFailure, connectivity.Shutdown:
			return nil
		default:
			if !conn.WaitForStateChange(limited, now) && ctx.Err() == nil {
				return fmt.Errorf("%w within %s", errNotConnected, limit)
			} else if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// acceptsConnections reports whether the machine of an endpoint accepts a TCP connection. Its kernel does
// that at once, however busy etcd is.
func acceptsConnections(ctx context.Context, endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	conn, err := (&net.Dialer{Timeout: callTimeout}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// loadTLSConfig reads the files of via. It returns nil if there are none: an external etcd may
// serve without TLS.
func (k *Cluster) loadTLSConfig(via state.Etcd) (*tls.Config, error) {
	if via.CAFile == "" && via.CertFile == "" && via.KeyFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if via.CAFile != "" {
		data, err := k.readFile(via.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of etcd: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("reading the CA of etcd: %s contains no certificate in PEM form",
				via.CAFile)
		}
	}
	if via.CertFile == "" && via.KeyFile == "" {
		return config, nil
	}
	cert, err := k.readFile(via.CertFile)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate for etcd: %w", err)
	}
	key, err := k.readFile(via.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the client key for etcd: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("using %s and %s as client certificate for etcd: %w", via.CertFile,
			via.KeyFile, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// certificateHints returns hints about problems of the certificates. Problems of the server's
// certificate are found in the text of the error, as gRPC passes on nothing else of a failed
// handshake. The client certificate is verified here: a server that rejects it closes the
// connection, and its reason is often lost.
func certificateHints(via state.Etcd, config *tls.Config, err error) []string {
	var hints []string
	text := err.Error()
	switch {
	case strings.Contains(text, "signed by unknown authority"):
		hints = append(hints,
			fmt.Sprintf("the CA in %s did not sign etcd's certificate: one of them belongs to another cluster", via.CAFile))
	case strings.Contains(text, "certificate has expired"):
		hints = append(hints,
			"etcd's certificate is not valid by this machine's clock: compare the clocks, or check its dates: openssl x509 -noout -dates -in FILE")
	}
	if config == nil || len(config.Certificates) == 0 {
		return hints
	}
	_, invalid := config.Certificates[0].Leaf.Verify(x509.VerifyOptions{
		Roots:     config.RootCAs,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if invalid != nil {
		hints = append(hints,
			fmt.Sprintf("etcd may reject the client certificate %s: %v", via.CertFile, invalid))
	}
	return hints
}
