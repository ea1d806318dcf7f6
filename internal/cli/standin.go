package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/certstore"
	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world/preview"
)

// standInLimit is how long a dry run looks for a cluster before it goes on without one.
const standInLimit = 5 * time.Second

// standIn lets the dry run of a join go on where no cluster answers: a make-believe one with the
// defaults of this program takes its place, which knows the token and has whatever CA is wanted.
func (p *program) standIn(ctx context.Context, s *session, e *flow.Env) error {
	pretend, ok := s.world.(*preview.World)
	if !ok {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, standInLimit)
	defer cancel()
	cluster, document, silent := discovery.Look(limited, e)
	if silent == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	endpoint := strings.TrimPrefix(cluster.Server, "https://")
	s.say(flow.Warned, fmt.Sprintf("no cluster answers at %s (%v): a make-believe one with the usual settings stands in for it", endpoint, silent))
	facts, err := p.facts(ctx, s.real, false)
	if err != nil {
		return err
	}
	flags := standInFlags(facts)
	flags.ControlPlaneEndpoint, _, _ = strings.Cut(endpoint, "/")
	n, _, err := config.Init(config.File{}, flags, facts)
	if err != nil {
		return err
	}
	named := slices.Clone(cluster.CertificateAuthorityData)
	ca, err := p.standInTrust(ctx, e, n, cluster)
	if err != nil {
		return err
	}
	if len(named) > 0 && !bytes.Equal(named, cluster.CertificateAuthorityData) {
		text, err := document.Encode()
		if err != nil {
			return err
		}
		if err := pretend.StandInDocument(e.Local.Join.File, text); err != nil {
			return err
		}
	}
	info, err := clusterInfo(cluster, e.Local.Join.Token)
	if err != nil {
		return err
	}
	objects, err := configMaps(n)
	if err != nil {
		return err
	}
	lent, err := p.standInLent(e, n, ca)
	if err != nil {
		return err
	}
	objects = append(objects, lent...)
	return pretend.StandIn(ctx, info.Data, append(objects, info)...)
}

// standInTrust returns the CA of the simulated cluster and puts it into cluster: the one that a discovery file
// names, or the one that lies on this machine, or a new one. Where certificates are to be downloaded, the
// cluster must have the key of the CA that it shows; if that of the discovery file is not here, a new CA takes
// its place.
func (p *program) standInTrust(ctx context.Context, e *flow.Env, n *node.Node, cluster *api.Cluster) (pki.CA, error) {
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	here, absent := certstore.ReadCA(ctx, e.World, n, profile)
	if len(cluster.CertificateAuthorityData) > 0 {
		certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData)
		if err != nil {
			return pki.CA{}, err
		}
		if absent == nil && slices.ContainsFunc(certs, here.Certificate.Equal) {
			return here, nil
		}
		pins, err := pki.ParsePins(e.Local.Join.CACertHashes)
		if err == nil && len(pins) > 0 {
			_, err = pki.MatchPins(certs, pins)
		}
		if err != nil || e.Local.CertificateKey == "" {
			return pki.CA{Certificate: certs[0]}, nil // what is wrong with the hashes is for discovery to report
		}
		absent = errors.New("another CA is wanted")
	}
	if absent != nil {
		var err error
		if here, err = p.standInCA(e, n, pki.ClusterCA); err != nil {
			return pki.CA{}, err
		}
	}
	cluster.CertificateAuthorityData = pki.EncodeCertificates(here.Certificate)
	e.Local.Join.CACertHashes = []string{pki.PinOf(here.Certificate).String()}
	return here, nil
}

func standInFlags(facts config.Facts) config.InitFlags {
	flags := config.NewInitFlags()
	flags.KubernetesVersion = facts.Tool.String()
	flags.AdvertiseAddress = "192.0.2.1" // of the range that is for examples (RFC 5737)
	return flags
}

func (p *program) standInCA(e *flow.Env, n *node.Node, name string) (pki.CA, error) {
	profile, _ := pki.ProfileOf(name)
	now := e.World.Now().UTC()
	spec, _, err := profile.Spec(n.Site(), pki.Validity{NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)})
	if err != nil {
		return pki.CA{}, err
	}
	key, err := pki.NewKey(p.Random("stand-in"), pki.ECDSAP256)
	if err != nil {
		return pki.CA{}, err
	}
	return pki.NewCA(p.Random("stand-in"), key, spec)
}

// clusterInfo is what the make-believe cluster tells of itself, signed with the user's token if there is one.
func clusterInfo(cluster *api.Cluster, token string) (*corev1.ConfigMap, error) {
	info, err := manifest.ClusterInfo(pki.Anonymous(cluster))
	if err != nil {
		return nil, err
	}
	id, secret, ok := strings.Cut(token, ".")
	if !ok {
		return info, nil
	}
	signature, err := jws.ComputeDetachedSignature(info.Data[bootstrapapi.KubeConfigKey], id, secret)
	if err != nil {
		return nil, err
	}
	info.Data[bootstrapapi.JWSSignatureKeyPrefix+id] = signature
	return info, nil
}

// configMaps are what a cluster keeps for nodes that join.
func configMaps(n *node.Node) ([]state.Object, error) {
	kubelets, err := manifest.KubeletConfig(n)
	if err != nil {
		return nil, err
	}
	proxy, err := manifest.NewKubeProxy(n, manifest.Host{}, manifest.Patches{})
	if err != nil {
		return nil, err
	}
	return []state.Object{manifest.KubeadmConfig(n), kubelets, proxy.Config}, nil
}
