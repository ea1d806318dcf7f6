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
	kubernetes = "/etc/kubernetes/"
	certsDir   = kubernetes + "pki/"
)

// keeper has the keys of all certificate authorities of a cluster, in the memory of the test and nowhere else.
type keeper struct {
	authorities map[string]pki.CA
	account     crypto.Signer // signs service account tokens; all control planes have it
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{authorities: make(map[string]pki.CA), account: newKey(t)}
	for _, p := range pki.Profiles() {
		if !p.IsCA() {
			continue
		}
		ca, err := pki.NewCA(rand.Reader, newKey(t), pki.Spec{CommonName: p.CommonName, Validity: pki.Lasting(time.Now(), 48*time.Hour)})
		must(t, err)
		k.authorities[p.Name] = ca
	}
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.RSA2048)
	must(t, err)
	return key
}

// supply answers the requests that kubeadm makes on a machine with its configuration, and brings what all control planes share.
func (k *keeper) supply(t *testing.T, n *nodes.Node) {
	t.Helper()
	run(t, n, ours, "certs", "generate-csr", "--config", goodFile)
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			write(t, n, certsDir+p.CertificateFile(), string(k.root(p.Name)))
		}
	}
	for _, p := range pki.Profiles() {
		if !p.IsCA() {
			signed := k.sign(t, read(t, n, certsDir+p.RequestFile()), p)
			write(t, n, certsDir+p.CertificateFile(), string(signed))
			run(t, n, "rm", certsDir+p.RequestFile())
		}
	}
	for _, p := range pki.KubeconfigProfiles() {
		k.complete(t, n, kubernetes+p.File)
	}
	private, err := pki.EncodeKey(k.account)
	must(t, err)
	public, err := pki.EncodePublicKey(k.account.Public())
	must(t, err)
	must(t, n.WriteFile(certsDir+pki.ServiceAccountKey, private, 0o600))
	must(t, n.WriteFile(certsDir+pki.ServiceAccountPublicKey, public, 0o600))
}

// introduce brings a machine what its kubelet needs to belong to the cluster: its kubeconfig and the CA.
func (k *keeper) introduce(t *testing.T, n *nodes.Node) {
	t.Helper()
	const folder = "/root/csr/"
	run(t, n, ours, "certs", "generate-csr", "--config", goodFile, "--cert-dir", folder+"pki", "--kubeconfig-dir", folder)
	k.complete(t, n, folder+"kubelet.conf")
	must(t, n.WriteFile(kubernetes+"kubelet.conf", []byte(read(t, n, folder+"kubelet.conf")), 0o600))
	write(t, n, certsDir+"ca.crt", string(k.root(pki.ClusterCA)))
	run(t, n, "rm", "-r", folder)
}

func (k *keeper) root(name string) []byte {
	return pki.EncodeCertificates(k.authorities[name].Certificate)
}

// sign gives who made the request the certificate that the profile says it is for.
func (k *keeper) sign(t *testing.T, request string, p pki.Profile) []byte {
	t.Helper()
	asked, err := pki.ParseRequest([]byte(request))
	must(t, err)
	cert, err := k.authorities[p.Issuer].Issue(rand.Reader, pki.Spec{
		CommonName: asked.Subject.CommonName, Organization: asked.Subject.Organization,
		SANs:   pki.SANs{DNSNames: asked.DNSNames, IPs: asked.IPAddresses},
		Usages: p.Usages, Validity: pki.Lasting(time.Now(), 24*time.Hour),
	}, asked.PublicKey)
	must(t, err)
	return pki.EncodeCertificates(cert)
}

// complete puts the two certificates into a kubeconfig that lacks them.
func (k *keeper) complete(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	client, _ := pki.ProfileOf("apiserver-kubelet-client") // the same usages and the same authority
	config, err := pki.ParseKubeconfig([]byte(read(t, n, file)))
	must(t, err)
	cluster, err := config.CurrentCluster()
	must(t, err)
	user, err := config.CurrentUser()
	must(t, err)
	cluster.CertificateAuthorityData = k.root(pki.ClusterCA)
	user.ClientCertificateData = k.sign(t, read(t, n, file+".csr"), client)
	text, err := config.Encode()
	must(t, err)
	must(t, n.WriteFile(file, text, 0o600))
	run(t, n, "rm", file+".csr")
}
