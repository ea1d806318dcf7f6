//go:build e2e

package e2e

import (
	"crypto"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// TestExternalCA supplies each machine with certificates that an external CA has signed, and no CA
// key. The nodes that join already have a kubeconfig for the kubelet, and the worker the CA
// certificate.
func TestExternalCA(t *testing.T) {
	parallel(t)
	s, k := newExternalCACluster(t)
	init := []string{kubeadm, "init", "--config", initConfigFile, "-v=1"}
	checkFails(t, s.cp, []string{"cannot upload the control plane certificates",
		certsDir + "ca.key is not on this machine"}, append(init, "--upload-certs")...)
	t.Run("init resumes", func(t *testing.T) {
		if result, killed := runInterrupted(t, s.cp, unix.SIGKILL, atPhase("wait-control-plane"),
			init...); !killed {
			t.Fatalf("init was not killed:\n%s%s", result.Stdout, result.Stderr)
		}
		var err error
		s.initResult, err = s.cp.Run(t.Context(), init...)
		must(t, err)
		s.workerJoin, _, err = nodes.JoinCommands(s.initResult.Stdout)
		must(t, err)
	})
	t.Run("a control plane joins", func(t *testing.T) {
		for _, n := range s.controlPlanes[1:] {
			joinExternalCA(t, s, n, "--control-plane")
		}
		checkVotingMembers(t, s.controlPlanes...)
	})
	t.Run("a worker joins", func(t *testing.T) {
		checkFails(t, s.worker,
			[]string{"FileAvailable--etc-kubernetes-kubelet.conf",
				"FileAvailable--etc-kubernetes-pki-ca.crt"},
			workerJoinCommand(kubeadm, &s.testCluster)...)
		joinExternalCA(t, s, s.worker)
	})
	must(t, awaitClusterReady(t.Context(), s.cp, len(s.controlPlanes)+1))
	for _, n := range s.Nodes() {
		if found := runShell(t, n,
			"find /etc /root /var/lib/kubelet -name 'ca*.key'"); found != "" {
			t.Errorf("%s has %s", n.Name(), found)
		}
	}
	if text := readFile(t, s.cp,
		kubernetesDir+"manifests/kube-controller-manager.yaml"); !strings.Contains(text,
		"--cluster-signing-key-file=\n") {
		t.Errorf("the controller manager signs certificates:\n%s", text)
	}
	testRenewalSkipsExternalCA(t, s.cp, k)
	checkUpgradeToSameVersion(t, s.cp)
	checkWorkload(t, &s.testCluster)
}

// newExternalCACluster creates the nodes and the load balancer of a cluster whose CA keys only the
// test has.
func newExternalCACluster(t *testing.T) (*haCluster, *externalCA) {
	t.Helper()
	s, k := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}, newExternalCA(t)
	names := []string{"cp1", "cp2", "worker1"}
	if suite.full {
		names = append(names, "cp3")
	}
	added, err := s.AddAll(t.Context(), names...)
	must(t, err)
	s.cp, s.worker, s.workers = added[0], added[2], added[2:3]
	s.controlPlanes = slices.Concat(added[:2], added[3:])
	s.balancer, err = s.StartBalancer(t.Context())
	must(t, err)
	must(t, s.balancer.SetBackends(s.controlPlanes...))
	for _, n := range added {
		config := nodes.Config{Address: n.Address(), Endpoint: s.balancer.Endpoint()}
		must(t, n.WriteFile(initConfigFile, []byte(nodes.InitConfig(config)), 0o600))
		if n == s.worker {
			k.supplyKubelet(t, n)
			continue
		}
		k.supplyControlPlane(t, n)
		if n != s.cp {
			runCommand(t, n, "rm", kubernetesDir+"super-admin.conf")
		}
	}
	return s, k
}

// joinExternalCA joins a machine that already has a kubeconfig for its kubelet.
func joinExternalCA(t *testing.T, s *haCluster, n *nodes.Node, more ...string) {
	t.Helper()
	before := readFile(t, n, kubernetesDir+"kubelet.conf")
	args := slices.Concat(s.workerJoin, more)
	args = append(args, "--ignore-preflight-errors="+nodes.IgnoredPreflight+
		",FileAvailable--etc-kubernetes-kubelet.conf,FileAvailable--etc-kubernetes-pki-ca.crt")
	result, err := n.Run(t.Context(), args...)
	must(t, err)
	t.Logf("%s joined in %s", n.Name(), result.Duration)
	if readFile(t, n, kubernetesDir+"kubelet.conf") != before {
		t.Errorf("the join replaced kubelet.conf of %s", n.Name())
	}
}

// testRenewalSkipsExternalCA checks that certs renew leaves certificates of external CAs
// unchanged.
func testRenewalSkipsExternalCA(t *testing.T, cp *nodes.Node, k *externalCA) {
	t.Helper()
	before := runShell(t, cp,
		"find /etc/kubernetes/pki /etc/kubernetes/*.conf -type f | sort | xargs sha256sum")
	said := runCommand(t, cp, kubeadm, "certs", "renew", "all")
	if n := strings.Count(said, " was not renewed: "); n != 11 {
		t.Errorf("%d certificates were skipped:\n%s", n, said)
	}
	if after := runShell(t, cp,
		"find /etc/kubernetes/pki /etc/kubernetes/*.conf -type f | sort | xargs sha256sum"); after != before {
		t.Errorf("the files were%s\nand are%s", before, after)
	}
	external := runCommand(t, cp, kubeadm, "certs", "check-expiration", "-o",
		"jsonpath={.certificates[*].externallyManaged} {.certificateAuthorities[*].externallyManaged}")
	if strings.Contains(external, "false") || len(strings.Fields(external)) != 11+len(k.cas) {
		t.Errorf("managed externally: %s", external)
	}
}

const (
	kubernetesDir = "/etc/kubernetes/"
	certsDir      = kubernetesDir + "pki/"
)

// externalCA holds the keys of all CAs of a cluster, in the memory of the test only.
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
		ca, err := pki.NewCA(rand.Reader, newRSAKey(t),
			pki.Spec{CommonName: p.CommonName, Validity: pki.NewValidity(time.Now(), 48*time.Hour)})
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

// supplyControlPlane signs the requests that `kubeadm certs generate-csr` writes on a machine, and
// copies the files that all control planes share.
func (k *externalCA) supplyControlPlane(t *testing.T, n *nodes.Node) {
	t.Helper()
	runCommand(t, n, kubeadm, "certs", "generate-csr", "--config", initConfigFile)
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			writeFile(t, n, certsDir+p.CertificateFile(), string(k.certificate(p.Name)))
		}
	}
	for _, p := range pki.Profiles() {
		if !p.IsCA() {
			signed := k.sign(t, readFile(t, n, certsDir+p.Base+".csr"), p)
			writeFile(t, n, certsDir+p.CertificateFile(), string(signed))
			runCommand(t, n, "rm", certsDir+p.Base+".csr")
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

// supplyKubelet writes the kubelet's kubeconfig and the CA certificate to a machine.
func (k *externalCA) supplyKubelet(t *testing.T, n *nodes.Node) {
	t.Helper()
	const dir = "/root/csr/"
	runCommand(t, n, kubeadm, "certs", "generate-csr", "--config", initConfigFile, "--cert-dir",
		dir+"pki", "--kubeconfig-dir", dir)
	k.completeKubeconfig(t, n, dir+"kubelet.conf")
	must(t, n.WriteFile(kubernetesDir+"kubelet.conf", []byte(readFile(t, n, dir+"kubelet.conf")),
		0o600))
	writeFile(t, n, certsDir+"ca.crt", string(k.certificate(pki.ClusterCA)))
	runCommand(t, n, "rm", "-r", dir)
}

func (k *externalCA) certificate(name string) []byte {
	return pki.EncodeCertificates(k.cas[name].Certificate)
}

// sign issues the certificate that a request asks for, with the usages of the profile.
func (k *externalCA) sign(t *testing.T, request string, p pki.Profile) []byte {
	t.Helper()
	asked, err := pki.ParseRequest([]byte(request))
	must(t, err)
	cert, err := k.cas[p.Issuer].Issue(rand.Reader, pki.Spec{
		CommonName: asked.Subject.CommonName, Organization: asked.Subject.Organization,
		SANs:   pki.SANs{DNSNames: asked.DNSNames, IPs: asked.IPAddresses},
		Usages: p.Usages, Validity: pki.NewValidity(time.Now(), 24*time.Hour),
	}, asked.PublicKey)
	must(t, err)
	return pki.EncodeCertificates(cert)
}

// completeKubeconfig adds the CA's and the client's certificate to a kubeconfig.
func (k *externalCA) completeKubeconfig(t *testing.T, n *nodes.Node, file string) {
	t.Helper()
	client, _ := pki.ProfileOf("apiserver-kubelet-client") // the same usages and the same CA
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
	runCommand(t, n, "rm", file+".csr")
}
