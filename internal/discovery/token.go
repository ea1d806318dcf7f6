// Package discovery finds the cluster that a machine is to join, and believes nothing
// that it cannot verify.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// patience is how long a cluster that signs for other tokens is waited for to sign for ours:
// its controller does so within moments of a token's creation.
const patience = 15 * time.Second

// byToken asks the endpoint for cluster-info, checks the token's signature and the pins, and
// asks once more over a connection verified by the CA it was told.
func byToken(ctx context.Context, e *flow.Env, j node.Join, timeout time.Duration) (*api.Cluster, error) {
	id, secret, ok := strings.Cut(j.Token, ".")
	switch {
	case !ok:
		return nil, errors.New("the discovery token has no dot between its two halves")
	case len(j.CACertHashes) == 0 && !j.UnsafeNoPins:
		return nil, problem.New("", errors.New("no pin says which CA the cluster has, and nobody said to go without"),
			fmt.Sprintf("give --%s, or --%s where nobody else can be in between", flag.DiscoveryTokenHash, flag.DiscoveryTokenUnsafe))
	}
	s := &signpost{server: "https://" + j.Endpoint, id: id, secret: secret, remedy: mint(e.Local), say: e.Say}
	err := e.Await(ctx, world.Condition{
		Name:    fmt.Sprintf("the cluster at %s to answer and to vouch for token %s", j.Endpoint, id),
		Timeout: timeout,
		Outside: true,
		Check:   s.read,
	})
	if err != nil {
		return nil, reachable(s.server, err)
	}
	cluster, certs, err := s.cluster()
	if err != nil {
		return nil, err
	}
	pinned, err := matching(certs, j.CACertHashes)
	if err != nil {
		return nil, notMeant(j.Endpoint, err)
	}
	if len(j.CACertHashes) == 0 {
		return cluster, nil
	}
	// Whoever has the token can put a CA of his own beside the right one: only those with a pin count.
	return cluster, s.confirm(ctx, e, pki.EncodeCertificates(pinned...), timeout)
}

// signpost is the ConfigMap cluster-info as one server shows it.
type signpost struct {
	server, id, secret string
	remedy             string // what to do about a token that is no good

	say   func(f string, a ...any)
	told  bool      // whether the user knows that the cluster is without etcd
	text  string    // the kubeconfig in it, once its signature was found good
	since time.Time // when it was first seen without our signature
}

// read looks at the signpost without trusting it: until its signature is checked it is hearsay.
func (s *signpost) read(ctx context.Context, r change.Reader) error {
	info, err := r.ClusterInfo(ctx, s.server, nil)
	if lasting(err) {
		return world.GiveUp(problem.New("", err, "see what listens at "+s.server+": it is no API server"))
	}
	if errors.Is(err, world.ErrWithoutEtcd) && !s.told {
		s.told = true
		s.say("%s: %v", s.server, err)
	}
	if err != nil {
		return err
	}
	text := info[bootstrapapi.KubeConfigKey]
	if text == "" {
		return fmt.Errorf("its ConfigMap cluster-info has no key %q", bootstrapapi.KubeConfigKey)
	}
	signature := info[bootstrapapi.JWSSignatureKeyPrefix+s.id]
	if signature == "" {
		return s.unsigned(r.Now(), signsForOthers(info))
	}
	if !jws.DetachedTokenIsValid(signature, text, s.id, s.secret) {
		return world.GiveUp(problem.New("", fmt.Errorf("its signature was not made with token %s: the token is wrong, or somebody else answers", s.id),
			s.remedy))
	}
	s.text = text
	return nil
}

func (s *signpost) unsigned(now time.Time, othersSigned bool) error {
	err := problem.New("", fmt.Errorf("the cluster does not know token %s (wrong, deleted, expired, or without usage %q), or has not signed for it yet",
		s.id, bootstrapapi.KnownTokenUsages[0]), "list the tokens on a control plane: kubeadm token list", s.remedy)
	if s.since.IsZero() {
		s.since = now
	}
	if othersSigned && now.Sub(s.since) > patience {
		return world.GiveUp(err)
	}
	return err
}

func signsForOthers(info map[string]string) bool {
	for key := range info {
		if strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix) {
			return true
		}
	}
	return false
}
