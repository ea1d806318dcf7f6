package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// at connects to one endpoint and calls do within the time of one attempt.
func at(ctx context.Context, endpoint string, trust *tls.Config, do func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint},
		TLS:       trust,
		// Without one the client would write to standard error; this one is silent.
		Logger:          clientv3.NewCtxClient(ctx).GetLogger(),
		MaxUnaryRetries: 1, // attempts are ours to repeat
		DialTimeout:     callTimeout,
	})
	if err != nil {
		return world.GiveUp(fmt.Errorf("connecting: %w", err))
	}
	defer func() { _ = c.Close() }()
	return do(ctx, c)
}

// trust reads the files of via; without any of them the connection is plain, which only an
// external etcd that asks for no certificates accepts.
func (k *Cluster) trust(via state.Etcd) (*tls.Config, error) {
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
			return nil, fmt.Errorf("reading the CA of etcd: %s holds no certificate in PEM form", via.CAFile)
		}
	}
	if via.CertFile == "" && via.KeyFile == "" {
		return config, nil
	}
	pair, err := k.pair(via)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

func (k *Cluster) pair(via state.Etcd) (tls.Certificate, error) {
	cert, err := k.readFile(via.CertFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading the client certificate for etcd: %w", err)
	}
	key, err := k.readFile(via.KeyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading the client key for etcd: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("using %s and %s as client certificate for etcd: %w", via.CertFile, via.KeyFile, err)
	}
	return pair, nil
}

// hints looks for what may be wrong with the certificates. Of the server's it reads in the text, since
// gRPC passes on nothing else of a failed handshake. Of the client's own it finds out itself: a server
// that refuses it hangs up, and often its reason is lost.
func hints(via state.Etcd, trust *tls.Config, failed error) []string {
	var all []string
	text := failed.Error()
	switch {
	case strings.Contains(text, "signed by unknown authority"):
		all = append(all, fmt.Sprintf("the CA in %s did not sign etcd's certificate: one of them belongs to another cluster", via.CAFile))
	case strings.Contains(text, "certificate has expired"):
		all = append(all, "etcd's certificate is not valid by this machine's clock: compare the clocks, or see its dates with `openssl x509 -noout -dates -in FILE`")
	}
	if trust == nil || len(trust.Certificates) == 0 {
		return all
	}
	_, err := trust.Certificates[0].Leaf.Verify(x509.VerifyOptions{
		Roots:     trust.RootCAs,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		all = append(all, fmt.Sprintf("etcd may refuse the client certificate %s: %v", via.CertFile, err))
	}
	return all
}
