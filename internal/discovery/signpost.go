package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/pki"
	"kubeadm/internal/world"
)

// cluster is what the signed kubeconfig says, with the CA certificates in it.
func (s *signpost) cluster() (*api.Cluster, []*x509.Certificate, error) {
	config, err := pki.ParseKubeconfig([]byte(s.text))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cluster-info of %s: %w", s.server, err)
	}
	cluster, err := config.DiscoveryCluster()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cluster-info of %s: %w", s.server, err)
	}
	certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the CA in the cluster-info of %s: %w", s.server, err)
	}
	return cluster, certs, nil
}

// confirm asks the server once more, now verified by the CA that the pins vouch for: it must
// show the very same cluster-info. A relay in between could not.
func (s *signpost) confirm(ctx context.Context, e *flow.Env, ca []byte, timeout time.Duration) error {
	return e.Await(ctx, world.Condition{
		Name:    "the server at " + s.server + " to prove that it holds the cluster's certificate",
		Timeout: timeout,
		Outside: true,
		Check: func(ctx context.Context, r change.Reader) error {
			again, err := r.ClusterInfo(ctx, s.server, ca)
			if lasting(err) {
				return world.GiveUp(impostor(err))
			}
			if err != nil {
				return err
			}
			if again[bootstrapapi.KubeConfigKey] != s.text {
				return world.GiveUp(errors.New("it shows another cluster-info over the verified connection than before"))
			}
			return nil
		},
	})
}
