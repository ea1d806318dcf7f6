//go:build e2e

package e2e

import (
	"crypto"
	"crypto/rand"
	"testing"
	"time"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

const (
	kubernetesDir = "/etc/kubernetes/"
	certsDir      = kubernetesDir + "pki/"
)

// externalCA has the keys of all certificate authorities of a cluster, in the memory of the test and nowhere else.
type externalCA struct {
	cas               map[string]pki.CA
	serviceAccountKey crypto.Signer // signs service account tokens; all control planes have it
}

func newExternalCA(t *testing.T) *externalCA {
	t.Helper()
	k := &externalCA{cas: make(map[string]pki.CA), serviceAccountKey: newRSAKey(t)}
	for _, p := range pki.Profiles() {
		if !p.IsCA() {
			continue
		}
		ca, err := pki.NewCA(rand.Reader, newRSAKey(t), pki.Spec{CommonName: p.CommonName, Validity: pki.Lasting(time.Now(), 48*time.Hour)})
		must(t, err)
		k.cas[p.Name] = ca
	}
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRSAKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.RSA2048)
	must(t, err)
	return key
}

// supplyControlPlane answers the requests that kubeadm makes on a machine with its configuration, and brings what all control planes share.
func (k *externalCA) supplyControlPlane(t *testing.T, n *nodes.Node) {
	t.Helper()
	run(t, n, kubeadm, "certs", "generate-csr", "--config", initConfigFile)
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			writeFile(t, n, certsDir+p.CertificateFile(), string(k.certificate(p.Name)))
		}
	}
	for _, p := range pki.Profiles() {
		if !p.IsCA() {
			signed := k.sign(t, readFile(t, n, certsDir+p.RequestFile()), p)
			writeFile(t, n, certsDir+p.CertificateFile(), string(signed))
			run(t, n, "rm", certsDir+p.RequestFile())
		}
	}
	for _, p := range pki.KubeconfigProfiles() {
		k.completeKubeconfig(t, n, kubernetesDir+p.File)
	}
	private, err := pki.EncodeKey(k.serviceAccountKey)
	must(t, err)
	public, err := pki.EncodePublicKey(k.serviceAccountKey.Public())
	must(t, err)
	must(t, n.WriteFile(certsDir+pki.ServiceAccountKey, private, 0o600))
	must(t, n.WriteFile(certsDir+pki.ServiceAccountPublicKey, public, 0o600))
}

// supplyKubelet brings a machine what its kubelet needs to belong to the cluster: its kubeconfig and the CA.
func (k *externalCA) supplyKubelet(t *testing.T, n *nodes.Node) {
	t.Helper()
	const folder = "/root/csr/"
	run(t, n, kubeadm, "certs", "generate-csr", "--config", initConfigFile, "--cert-dir", folder+"pki", "--kubeconfig-dir", folder)
	k.completeKubeconfig(t, n, folder+"kubelet.conf")
	must(t, n.WriteFile(kubernetesDir+"kubelet.conf", []byte(readFile(t, n, folder+"kubelet.conf")), 0o600))
	writeFile(t, n, certsDir+"ca.crt", string(k.certificate(pki.ClusterCA)))
	run(t, n, "rm", "-r", folder)
}

func (k *externalCA) certificate(name string) []byte {
	return pki.EncodeCertificates(k.cas[name].Certificate)
}

// sign gives who made the request the certificate that the profile says it is for.
func (k *externalCA) sign(t *testing.T, request string, p pki.Profile) []byte {
	t.Helper()
	asked, err := pki.ParseRequest([]byte(request))
	must(t, err)
	cert, err := k.cas[p.Issuer].Issue(rand.Reader, pki.Spec{
		CommonName: asked.Subject.CommonName, Organization: asked.Subject.Organization,
		SANs:   pki.SANs{DNSNames: asked.DNSNames, IPs: asked.IPAddresses},
		Usages: p.Usages, Validity: pki.Lasting(time.Now(), 24*time.Hour),
	}, asked.PublicKey)
	must(t, err)
	return pki.EncodeCertificates(cert)
}

// completeKubeconfig puts the two certificates into a kubeconfig that lacks them.
func (k *externalCA) completeKubeconfig(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	client, _ := pki.ProfileOf("apiserver-kubelet-client") // the same usages and the same authority
	config, err := pki.ParseKubeconfig([]byte(readFile(t, n, file)))
	must(t, err)
	cluster, err := config.CurrentCluster()
	must(t, err)
	user, err := config.CurrentUser()
	must(t, err)
	cluster.CertificateAuthorityData = k.certificate(pki.ClusterCA)
	user.ClientCertificateData = k.sign(t, readFile(t, n, file+".csr"), client)
	text, err := config.Encode()
	must(t, err)
	must(t, n.WriteFile(file, text, 0o600))
	run(t, n, "rm", file+".csr")
}
