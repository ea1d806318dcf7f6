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

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// findClusterByToken reads cluster-info from the endpoint until it is verified by the token's
// signature and the CA certificate hashes.
func findClusterByToken(ctx context.Context, e *engine.Env,
	j node.Discovery) (verifiedCluster, error) {
	id, secret, ok := strings.Cut(j.Token, ".")
	switch {
	case !ok:
		return verifiedCluster{},
			errors.New("the discovery token has no dot between its two halves")
	case len(j.CACertHashes) == 0 && !j.UnsafeSkipCAVerification:
		return verifiedCluster{}, problem.New(
			errors.New("no hash of the cluster's CA certificate was given"),
			fmt.Sprintf("set --%s, or, in a network where no one can intercept connections, --%s",
				flag.DiscoveryTokenHash, flag.DiscoveryTokenUnsafe))
	}
	c := &clusterInfo{
		server: "https://" + j.Endpoint, id: id, secret: secret, pins: j.CACertHashes,
		remedy: newJoinCommandHint(e.Local), say: e.Say,
	}
	err := awaitServer(ctx, e, world.Condition{
		Name: fmt.Sprintf("the cluster at %s to answer, with a cluster-info that is signed with token %s",
			j.Endpoint, id),
		Timeout: e.Local.Timeouts.Discovery,
		Check:   c.verify,
	})
	if err != nil {
		return verifiedCluster{}, withReachabilityHint(c.server, err)
	}
	bootstrap, err := pki.NewBootstrapKubeconfig(c.cluster, j.TLSBootstrapToken)
	if err != nil {
		return verifiedCluster{}, err
	}
	reader, err := newTokenReader(bootstrap, e.Local)
	return verifiedCluster{bootstrap, reader}, err
}

// signatureTimeout is how long to wait for the signature of our token once cluster-info has those
// of others. The bootstrap signer of kube-controller-manager writes them. If its leader is lost,
// another one takes over after the lease of 15 seconds has expired, and then has to start its
// controllers.
const signatureTimeout = 45 * time.Second

// clusterInfo is the ConfigMap cluster-info of a server, and what is verified of it by token and
// pins.
type clusterInfo struct {
	server, id, secret string
	pins               []string
	remedy             string // hint for a token that is not accepted
	say                func(f string, a ...any)

	// the kubeconfig in it, once its signature and the pins are verified
	text    string
	cluster *api.Cluster // the cluster in text
	// the CA certificates of the cluster that have one of the pins
	pinned        []*x509.Certificate
	unsignedSince time.Time // when it was first read without our signature
	saidNoEtcd    bool      // the user was told that the API server gets no answer from etcd
}

// verify reads cluster-info over an unverified connection and checks the token's signature and the
// pins. Then it reads cluster-info again over a connection that only a pinned CA certificate
// verifies: both must be equal.
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
		return fmt.Errorf("the server at %s does not have a certificate from the cluster: %w", c.server,
			explainCertificateError(err))
	}
	if err != nil {
		return err
	}
	if again[bootstrapapi.KubeConfigKey] != c.text {
		c.cluster = nil
		return wrongServer{errors.New(
			"the cluster-info read over the verified connection differs from the one read before")}
	}
	return nil
}

func (c *clusterInfo) read(ctx context.Context, r state.Reader) error {
	info, err := r.ClusterInfo(ctx, c.server, nil)
	if isWrongServer(err) {
		return problem.New(err, "check what listens at "+c.server+": it is not an API server")
	}
	if errors.Is(err, world.ErrEtcdUnavailable) && !c.saidNoEtcd {
		c.saidNoEtcd = true
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
		return c.unsignedError(r.Now(), info)
	}
	if !jws.DetachedTokenIsValid(signature, text, c.id, c.secret) {
		return wrongServer{problem.New(fmt.Errorf(
			"its cluster-info is not signed with token %s: the token is wrong, or another server answers", c.id), c.remedy)}
	}
	if err := c.parse(text); err != nil {
		return wrongServer{err}
	}
	return nil
}

// parse stores the cluster in a signed text, if one of its CA certificates has one of the pins.
func (c *clusterInfo) parse(text string) error {
	cluster, err := parsePublishedCluster(text)
	if err != nil {
		return fmt.Errorf("reading the cluster-info of %s: %w", c.server, err)
	}
	certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
	if err != nil {
		return fmt.Errorf("reading the CA in the cluster-info of %s: %w", c.server, err)
	}
	pinned, err := matchPins(certs, c.pins)
	if err != nil {
		return problem.During("the cluster at "+c.server+" is not the expected one", err,
			comparePinsHint,
			"if they are the same there, a different server answers at "+c.server)
	}
	c.text, c.cluster, c.pinned = text, cluster, pinned
	return nil
}

// parsePublishedCluster returns the cluster in the kubeconfig of a cluster-info.
func parsePublishedCluster(text string) (*api.Cluster, error) {
	config, err := pki.ParseKubeconfig([]byte(text))
	if err != nil {
		return nil, untrusted.Error(err)
	}
	cluster, err := config.DiscoveryCluster()
	return cluster, untrusted.Error(err)
}

// unsignedError returns the error of a cluster-info without our token's signature. It gives up
// once kube-controller-manager has had time to sign it.
func (c *clusterInfo) unsignedError(now time.Time, info map[string]string) error {
	otherSignatures := false
	for key := range info {
		otherSignatures = otherSignatures ||
			strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix)
	}
	err := problem.New(
		fmt.Errorf("the cluster does not recognize token %s (it is wrong, was deleted, has expired, or lacks the %q usage), "+
			"or has not signed cluster-info with it yet", c.id, bootstrapapi.KnownTokenUsages[0]),
		"list the tokens on a control plane node: kubeadm token list", c.remedy)
	if c.unsignedSince.IsZero() {
		c.unsignedSince = now
		if otherSignatures {
			c.say("cluster-info is not signed with token %s yet; waiting up to %s for "+
				"kube-controller-manager to sign it, which it does for new tokens", c.id, signatureTimeout)
		} else {
			c.say("cluster-info is not signed with any token yet; waiting for kube-controller-manager to sign it")
		}
	}
	if otherSignatures && now.Sub(c.unsignedSince) > signatureTimeout {
		return world.Permanent(err)
	}
	return err
}
