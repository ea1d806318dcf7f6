package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// peer is upstream's kubeadm, which works in a directory of its own with the same names and
// addresses as the tests.
type peer struct {
	program, dir string
}

// newPeer skips the test unless KUBEADM_PEER names upstream's kubeadm.
func newPeer(t *testing.T) peer {
	t.Helper()
	p := peer{program: os.Getenv("KUBEADM_PEER"), dir: t.TempDir()}
	if p.program == "" {
		t.Skip("KUBEADM_PEER names no upstream kubeadm to compare with")
	}
	config := fmt.Sprintf(peerConfig, p.path("pki"))
	wantError(t, os.WriteFile(p.path("config.yaml"), []byte(config), 0o600))
	return p
}

const peerConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.0.0.4, bindPort: 6443}
nodeRegistration: {name: cp1, criSocket: unix:///x.sock}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
encryptionAlgorithm: ECDSA-P256
certificatesDir: %s
controlPlaneEndpoint: api.example.com:8443
networking: {serviceSubnet: "10.96.0.0/12,fd00:96::/112", podSubnet: "10.1.0.0/16,fd00:1::/48"}
apiServer: {certSANs: [z.example.com, 192.0.2.7, "*.wild.example.com", cp1, 10.0.0.4]}
etcd: {local: {serverCertSANs: [etcd.example.com, 192.0.2.8], peerCertSANs: [192.0.2.9, fd00::9, localhost]}}
`

func peerSite() NodeNames {
	s := testSite()
	s.APIServerSANs = []string{"z.example.com", "192.0.2.7", "*.wild.example.com", "cp1",
		"10.0.0.4"}
	s.EtcdServerSANs = []string{"etcd.example.com", "192.0.2.8"}
	s.EtcdPeerSANs = []string{"192.0.2.9", "fd00::9", "localhost"}
	return s
}

func (p peer) path(parts ...string) string {
	return filepath.Join(append([]string{p.dir}, parts...)...)
}

func (p peer) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(p.program, append(args, "--config", p.path("config.yaml"))...)
	cmd.Dir = p.dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, output)
	}
	return string(output)
}

func (p peer) read(t *testing.T, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(p.path(parts...))
	wantError(t, err)
	return data
}

func (p peer) stored(t *testing.T, profile Profile) StoredPair {
	t.Helper()
	return StoredPair{p.read(t, "pki", profile.CertificateFile()),
		p.read(t, "pki", profile.KeyFile())}
}

func TestPeerCertificates(t *testing.T) {
	p := newPeer(t)
	p.run(t, "init", "phase", "certs", "all")
	p.run(t, "init", "phase", "kubeconfig", "all", "--kubeconfig-dir", p.path("conf"))
	cas := map[string]CA{}
	for _, profile := range Profiles() {
		theirs := p.stored(t, profile)
		if profile.IsCA() {
			ca, err := theirs.ParseCA()
			wantError(t, err)
			cas[profile.Name] = ca
		} else if _, err := theirs.VerifyPair(cas[profile.Issuer].Certificate,
			time.Now()); err != nil {
			t.Error(err)
		}
		cert := mustParse(t, theirs.Certificate)[0]
		spec, _, err := profile.Spec(peerSite(), Validity{cert.NotBefore, cert.NotAfter})
		wantError(t, err)
		ours := newCertificate(t, spec, cas[profile.Issuer])
		if diff := cmp.Diff(factsOf(cert), factsOf(ours.cert)); diff != "" {
			t.Errorf("%s: %s", profile.Name, diff)
		}
		samePEMKinds(t, theirs.Key, keyPEM(t, ours.key))
	}
	public, err := ParsePublicKey(p.read(t, "pki", ServiceAccountPublicKey))
	wantError(t, err)
	again, err := EncodePublicKey(public)
	wantError(t, err)
	if string(again) != string(p.read(t, "pki", ServiceAccountPublicKey)) {
		t.Error("the encoding of sa.pub differs")
	}
	for _, profile := range KubeconfigProfiles() {
		samePeerKubeconfig(t, p.read(t, "conf", profile.File), profile, cas[ClusterCA])
	}
}

// newCertificate is self-signed without an issuer.
func newCertificate(t *testing.T, s Spec, by CA) leaf {
	t.Helper()
	if by.Certificate != nil {
		return newLeaf(t, by, s)
	}
	ca, err := NewCA(rand.Reader, newKey(t), s)
	wantError(t, err)
	return leaf{ca.Certificate, ca.Key}
}

func samePEMKinds(t *testing.T, theirs, ours []byte) {
	t.Helper()
	for _, data := range []*[]byte{&theirs, &ours} {
		var kinds []byte
		for block := range pemBlocks(*data) {
			kinds = append(kinds, block.Type+"\n"...)
		}
		*data = kinds
	}
	if diff := cmp.Diff(string(theirs), string(ours)); diff != "" {
		t.Error(diff)
	}
}

// samePeerKubeconfig builds the peer's file again with the peer's own secrets. Every byte
// must be the same.
func samePeerKubeconfig(t *testing.T, data []byte, profile KubeconfigProfile, ca CA) {
	t.Helper()
	k, err := ParseKubeconfig(data)
	wantError(t, err)
	cert, err := k.ClientCertificate()
	wantError(t, err)
	spec := profile.Spec("cp1", ca.Certificate, cert.NotAfter)
	if diff := cmp.Diff(factsOf(cert), factsOf(newLeaf(t, ca, spec).cert)); diff != "" {
		t.Errorf("%s: %s", profile.File, diff)
	}
	server := "https://api.example.com:8443"
	if profile.UsesLocalAPIServer {
		server = "https://10.0.0.4:6443"
	}
	user, err := k.CurrentUser()
	wantError(t, err)
	ours, err := KubeconfigSpec{Server: server, Cluster: "kubernetes",
		User: profile.UserName("cp1"),
		CA:   EncodeCertificates(ca.Certificate)}.WithCertificate(EncodeCertificates(cert),
		user.ClientKeyData).Encode()
	wantError(t, err)
	if diff := cmp.Diff(string(data), string(ours)); diff != "" {
		t.Errorf("%s: %s", profile.File, diff)
	}
}

func TestPeerRequests(t *testing.T) {
	p := newPeer(t)
	p.run(t, "certs", "generate-csr", "--kubeconfig-dir", p.path("conf"))
	for _, profile := range Profiles() {
		if profile.IsCA() {
			continue
		}
		spec, _, err := profile.Spec(peerSite(), day)
		wantError(t, err)
		key, err := ParseKey(p.read(t, "pki", profile.KeyFile()))
		wantError(t, err)
		ours, err := spec.Request(rand.Reader, key)
		wantError(t, err)
		if diff := cmp.Diff(signedPart(t, p.read(t, "pki", profile.Base+".csr")),
			signedPart(t, ours)); diff != "" {
			t.Errorf("%s: %s", profile.Name, diff)
		}
	}
	for _, profile := range KubeconfigProfiles() {
		theirs := p.read(t, "conf", profile.File)
		k, err := ParseKubeconfig(theirs)
		wantError(t, err)
		user, err := k.CurrentUser()
		wantError(t, err)
		ours, err := KubeconfigSpec{Server: "https://" + endpointOf(t, k), Cluster: "kubernetes",
			User: profile.UserName("cp1")}.
			WithCertificate(nil, user.ClientKeyData).Encode()
		wantError(t, err)
		if diff := cmp.Diff(string(theirs), string(ours)); diff != "" {
			t.Errorf("%s: %s", profile.File, diff)
		}
	}
}

func endpointOf(t *testing.T, k *Kubeconfig) string {
	t.Helper()
	endpoint, err := k.Endpoint()
	wantError(t, err)
	return endpoint
}

// signedPart returns the part of a request that its signature covers.
func signedPart(t *testing.T, data []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(data)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	wantError(t, err)
	return csr.RawTBSCertificateRequest
}

func TestPeerKeepsOurFiles(t *testing.T) {
	p := newPeer(t)
	validity := Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cas := map[string]CA{}
	for _, profile := range Profiles() {
		spec, _, err := profile.Spec(peerSite(), validity)
		wantError(t, err)
		l := newCertificate(t, spec, cas[profile.Issuer])
		if profile.IsCA() {
			cas[profile.Name] = CA{l.cert, l.key}
		}
		wantError(t, os.MkdirAll(filepath.Dir(p.path("pki", profile.Base)), 0o700))
		wantError(t, os.WriteFile(p.path("pki", profile.CertificateFile()),
			EncodeCertificates(l.cert), 0o600))
		wantError(t, os.WriteFile(p.path("pki", profile.KeyFile()), keyPEM(t, l.key), 0o600))
	}
	wantError(t, os.WriteFile(p.path("pki", ServiceAccountKey), keyPEM(t, newKey(t)), 0o600))
	before := p.tree(t)
	p.run(t, "init", "phase", "certs", "all")
	if diff := cmp.Diff(before, p.tree(t)); diff != "" {
		t.Errorf("the peer did not keep everything:\n%s", diff)
	}
}

// tree is the content of every file below the certificates directory.
func (p peer) tree(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	wantError(t, filepath.WalkDir(p.path("pki"),
		func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files[path] = string(data)
			return err
		}))
	return files
}
