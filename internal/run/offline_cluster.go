package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/world/dryrun"
)

// offlineLimit is how long the dry run of a join looks for the cluster before it simulates one.
const offlineLimit = 5 * time.Second

// exampleAddress is that of a simulated control plane, of the range for examples (RFC 5737).
const exampleAddress = "192.0.2.1"

// SimulateOfflineCluster lets the dry run of a join continue where no cluster answers: the preview
// then shows a simulated one with the defaults of this program, which accepts the token and has
// whatever CA is wanted.
func (r *Run) SimulateOfflineCluster(ctx context.Context, e *engine.Env) error {
	simulation, ok := r.world.(*dryrun.World)
	if !ok {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, offlineLimit)
	defer cancel()
	cluster, document, noAnswer := discovery.Probe(limited, e)
	if noAnswer == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	endpoint := strings.TrimPrefix(cluster.Server, "https://")
	r.Emit(engine.Warned,
		fmt.Sprintf("no cluster answers at %s (%v): using a simulated cluster with default settings", endpoint, noAnswer))
	o, err := r.newOfflineCluster(ctx, e, cluster)
	if err != nil {
		return err
	}
	if o.otherCA && document != nil {
		text, err := document.Encode()
		if err != nil {
			return err
		}
		if err := simulation.SimulateDiscoveryFile(e.Local.Discovery.File, text); err != nil {
			return err
		}
	}
	info, err := signedClusterInfo(cluster, e.Local.Discovery.Token)
	if err != nil {
		return err
	}
	kubelets, err := manifest.KubeletConfig(o.node)
	if err != nil {
		return err
	}
	proxy, err := manifest.NewKubeProxy(o.node, manifest.Host{}, manifest.Patches{})
	if err != nil {
		return err
	}
	certs, err := o.certsSecret(e.Local.CertificateKey)
	if err != nil {
		return err
	}
	r.simulatedPins = o.pins
	return simulation.SimulateCluster(info.Data, append(certs, info,
		manifest.KubeadmConfig(o.node), kubelets, proxy.Config)...)
}

// offlineCluster is a simulated cluster.
type offlineCluster struct {
	host   Host
	random io.Reader
	node   *node.Node // its first control plane
	ca     pki.CA     // without a key if that is not known

	otherCA bool     // the CA is another one than that of the discovery file
	pins    []string // of the CA, if the machine is to join by another one than it pins
}

// newOfflineCluster chooses the settings and the CA of a simulated cluster, and puts the CA into
// cluster.
func (r *Run) newOfflineCluster(ctx context.Context, e *engine.Env,
	cluster *api.Cluster) (*offlineCluster, error) {
	facts, err := r.host.Facts(ctx, Needs{Address: true})
	if err != nil {
		return nil, err
	}
	flags := config.NewInitFlags()
	flags.KubernetesVersion = facts.Tool.String()
	flags.AdvertiseAddress = exampleAddress
	flags.ControlPlaneEndpoint, _, _ = strings.Cut(strings.TrimPrefix(cluster.Server, "https://"),
		"/")
	n, _, err := config.Init(config.File{}, flags, facts)
	if err != nil {
		return nil, err
	}
	o := &offlineCluster{host: r.host, random: r.host.Random("offline-cluster"), node: n}
	return o, o.chooseCA(ctx, e, cluster)
}

// chooseCA takes the CA that a discovery file names, or that of this machine, or a new one, and
// puts it into cluster. Where certificates are to be downloaded, the cluster must have the key of
// the CA that it shows; if that of the discovery file is not here, a new CA takes its place.
func (o *offlineCluster) chooseCA(ctx context.Context, e *engine.Env, cluster *api.Cluster) error {
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	here, absent := certstore.ReadCA(ctx, e.World, o.node, profile)
	wanted := cluster.CertificateAuthorityData
	if len(wanted) > 0 {
		certs, err := pki.ParseCertificates(wanted)
		if err != nil {
			return err
		}
		if absent == nil && slices.ContainsFunc(certs, here.Certificate.Equal) {
			o.ca = here
			return nil
		}
		if hashes := e.Local.Discovery.CACertHashes; len(hashes) > 0 {
			_, err = pki.MatchPins(certs, hashes)
		}
		if err != nil || e.Local.CertificateKey == "" {
			o.ca = pki.CA{Certificate: certs[0]} // discovery reports what is wrong with the hashes
			return nil
		}
		absent = errors.New("another CA is wanted")
	}
	if absent != nil {
		var err error
		if here, err = o.newCA(pki.ClusterCA); err != nil {
			return err
		}
	}
	o.ca, o.pins = here, []string{pki.PinOf(here.Certificate).String()}
	cluster.CertificateAuthorityData = pki.EncodeCertificates(here.Certificate)
	o.otherCA = len(wanted) > 0 && !bytes.Equal(wanted, cluster.CertificateAuthorityData)
	return nil
}

func (o *offlineCluster) newCA(name string) (pki.CA, error) {
	profile, _ := pki.ProfileOf(name)
	now := o.host.World.Now().UTC()
	spec, _, err := profile.Spec(o.node.CertificateNames(),
		pki.Validity{NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)})
	if err != nil {
		return pki.CA{}, err
	}
	key, err := pki.NewKey(o.random, pki.ECDSAP256)
	if err != nil {
		return pki.CA{}, err
	}
	return pki.NewCA(o.random, key, spec)
}

// signedClusterInfo is ConfigMap cluster-info of the simulated cluster, signed with the user's
// token if there is one.
func signedClusterInfo(cluster *api.Cluster, token string) (*corev1.ConfigMap, error) {
	info, err := manifest.ClusterInfo(pki.NewAnonymousKubeconfig(cluster))
	if err != nil {
		return nil, err
	}
	id, secret, ok := strings.Cut(token, ".")
	if !ok {
		return info, nil
	}
	signature, err := jws.ComputeDetachedSignature(info.Data[bootstrapapi.KubeConfigKey], id,
		secret)
	if err != nil {
		return nil, err
	}
	info.Data[bootstrapapi.JWSSignatureKeyPrefix+id] = signature
	return info, nil
}
