package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/change"
)

// at connects to one endpoint and calls do within the time of one attempt.
func at(ctx context.Context, endpoint string, trust *tls.Config, do func(context.Context, clientv3.Cluster) error) error {
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
		return final{fmt.Errorf("connecting: %w", err)}
	}
	defer func() { _ = c.Close() }()
	// The client's own Cluster waits for the connection until the deadline and so never says why there is none.
	return do(ctx, clientv3.NewClusterFromClusterClient(etcdserverpb.NewClusterClient(c.ActiveConnection()), nil))
}

// trust reads the files of via; without any of them the connection is plain, which only an
// external etcd that asks for no certificates accepts.
func (k *Cluster) trust(via change.Etcd) (*tls.Config, error) {
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

func (k *Cluster) pair(via change.Etcd) (tls.Certificate, error) {
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

// hints reads the reasons from texts, since gRPC passes on nothing else of a failed handshake.
func hints(via change.Etcd, failed error) []string {
	all := failed.Error()
	switch {
	case strings.Contains(all, "signed by unknown authority"):
		return []string{fmt.Sprintf("the CA in %s did not sign etcd's certificate: one of them belongs to another cluster", via.CAFile)}
	case strings.Contains(all, "certificate required"), strings.Contains(all, "bad certificate"),
		strings.Contains(all, "unknown certificate"):
		return []string{fmt.Sprintf("etcd did not accept the client certificate %s; is it signed by etcd's CA and still valid?", via.CertFile)}
	case strings.Contains(all, "certificate has expired"):
		return []string{`etcd's certificate is not valid by this machine's clock; see "kubeadm certs check-expiration"`}
	}
	return nil
}
