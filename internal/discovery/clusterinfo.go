package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// tokenPatience is how long a cluster that signs for other tokens is waited for to sign for ours. The
// signatures are written by kube-controller-manager; where its leader is lost, another one takes over
// once the lease of 15 seconds has expired, and then has to start its controllers.
const tokenPatience = 45 * time.Second

// clusterInfo is the ConfigMap cluster-info of one server, on its way from hearsay to a cluster that
// is verified by token and pins.
type clusterInfo struct {
	server, id, secret string
	pins               []string
	remedy             string // what to do about a token that is not accepted
	say                func(f string, a ...any)

	text     string              // the kubeconfig in it, once its signature and the pins were found good
	cluster  *api.Cluster        // what the text says
	pinned   []*x509.Certificate // those CA certificates of the cluster that a pin was given for
	unsigned time.Time           // when it was first seen without our signature
	noEtcd   bool                // whether the user has been told that the API server gets no answer from etcd
}

// verify reads cluster-info over a connection that verifies nothing, checks the token's signature and the
// pins, and then reads it again from a server that a pinned CA certificate verifies: it must be the same.
func (c *clusterInfo) verify(ctx context.Context, r state.Reader) error {
	if c.cluster == nil {
		if err := c.read(ctx, r); err != nil {
			return err
		}
	}
	if len(c.pins) == 0 {
		return nil
	}
	again, err := r.ClusterInfo(ctx, c.server, pki.EncodeCertificates(c.pinned...))
	if isWrongServer(err) {
		return fmt.Errorf("the server at %s does not prove that it holds the cluster's certificate: %w", c.server, explainMistrust(err))
	}
	if err != nil {
		return err
	}
	if again[bootstrapapi.KubeConfigKey] != c.text {
		c.cluster = nil
		return wrongServer{errors.New("it shows another cluster-info over the verified connection than before")}
	}
	return nil
}

func (c *clusterInfo) read(ctx context.Context, r state.Reader) error {
	info, err := r.ClusterInfo(ctx, c.server, nil)
	if isWrongServer(err) {
		return problem.New("", err, "see what listens at "+c.server+": it is no API server")
	}
	if errors.Is(err, world.ErrWithoutEtcd) && !c.noEtcd {
		c.noEtcd = true
		c.say("%s: %v", c.server, err)
	}
	if err != nil {
		return err
	}
	text := info[bootstrapapi.KubeConfigKey]
	if text == "" {
		return fmt.Errorf("its ConfigMap cluster-info has no key %q", bootstrapapi.KubeConfigKey)
	}
	signature := info[bootstrapapi.JWSSignatureKeyPrefix+c.id]
	if signature == "" {
		return c.withoutSignature(r.Now(), isSignedForOthers(info))
	}
	if !jws.DetachedTokenIsValid(signature, text, c.id, c.secret) {
		return wrongServer{problem.New("", fmt.Errorf("its signature was not made with token %s: the token is wrong, or another server answers",
			c.id), c.remedy)}
	}
	if err := c.parse(text); err != nil {
		return wrongServer{err}
	}
	return nil
}

// parse keeps what a signed text says, if one of the pins is that of a CA in it.
func (c *clusterInfo) parse(text string) error {
	cluster, err := publishedCluster(text)
	if err != nil {
		return fmt.Errorf("reading the cluster-info of %s: %w", c.server, err)
	}
	certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
	if err != nil {
		return fmt.Errorf("reading the CA in the cluster-info of %s: %w", c.server, err)
	}
	pinned, err := matchPins(certs, c.pins)
	if err != nil {
		return problem.New("the cluster at "+c.server+" is not the one that was meant", err, comparePins,
			"if they are the same there, another server answers at "+c.server)
	}
	c.text, c.cluster, c.pinned = text, cluster, pinned
	return nil
}

// publishedCluster is the cluster that the kubeconfig in a cluster-info describes.
func publishedCluster(text string) (*api.Cluster, error) {
	config, err := pki.ParseKubeconfig([]byte(text))
	if err != nil {
		return nil, untrusted.Error(err)
	}
	cluster, err := config.DiscoveryCluster()
	return cluster, untrusted.Error(err)
}

// withoutSignature is an error that is final once the cluster has had time to sign for the token.
func (c *clusterInfo) withoutSignature(now time.Time, signedForOthers bool) error {
	err := problem.New("", fmt.Errorf("the cluster does not know token %s (wrong, deleted, expired, or without usage %q), or has not signed for it yet",
		c.id, bootstrapapi.KnownTokenUsages[0]), "list the tokens on a control plane: kubeadm token list", c.remedy)
	if c.unsigned.IsZero() {
		c.unsigned = now
		if signedForOthers {
			c.say("cluster-info is not signed with token %s yet; waiting up to %s for kube-controller-manager to sign it, "+
				"as it does for a new token", c.id, tokenPatience)
		} else {
			c.say("cluster-info is not signed with any token yet; waiting for kube-controller-manager to sign it")
		}
	}
	if signedForOthers && now.Sub(c.unsigned) > tokenPatience {
		return world.GiveUp(err)
	}
	return err
}

func isSignedForOthers(info map[string]string) bool {
	for key := range info {
		if strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix) {
			return true
		}
	}
	return false
}
