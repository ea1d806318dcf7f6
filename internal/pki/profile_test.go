package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inventory lists names and files of the certificates. Other programs read these files, so a
// change here is a change of the interface.
const inventory = `
ca ca.crt self CN=kubernetes
apiserver apiserver.crt ca CN=kube-apiserver server
apiserver-kubelet-client apiserver-kubelet-client.crt ca CN=kube-apiserver-kubelet-client client
front-proxy-ca front-proxy-ca.crt self CN=front-proxy-ca
front-proxy-client front-proxy-client.crt front-proxy-ca CN=front-proxy-client client
etcd-ca etcd/ca.crt self CN=etcd-ca
etcd-server etcd/server.crt etcd-ca CN=cp1 server client
etcd-peer etcd/peer.crt etcd-ca CN=cp1 server client
etcd-healthcheck-client etcd/healthcheck-client.crt etcd-ca CN=kube-etcd-healthcheck-client client
apiserver-etcd-client apiserver-etcd-client.crt etcd-ca CN=kube-apiserver-etcd-client client
`

func TestProfiles(t *testing.T) {
	var got strings.Builder
	for _, p := range Profiles() {
		spec, ignored, err := p.Spec(testSite(), day)
		wantError(t, err)
		if len(ignored) > 0 || p.Purpose == "" || spec.Validity != day {
			t.Errorf("%s: ignored %q, for %q, valid %v", p.Name, ignored, p.Purpose, spec.Validity)
		}
		issuer := p.Issuer
		if p.IsCA() {
			issuer = "self"
		}
		subject := pkix.Name{CommonName: spec.CommonName, Organization: spec.Organization}
		fmt.Fprintf(&got, "\n%s %s %s %s%s", p.Name, p.CertificateFile(), issuer, subject,
			usageWords(spec))
	}
	if diff := cmp.Diff(strings.TrimSpace(inventory), strings.TrimSpace(got.String())); diff != "" {
		t.Error(diff)
	}
}

func usageWords(s Spec) string {
	var words string
	for _, u := range s.Usages {
		words += map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: " server",
			x509.ExtKeyUsageClientAuth: " client"}[u]
	}
	return words
}

func TestIssuersComeFirst(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Profiles() {
		if !p.IsCA() && !seen[p.Issuer] {
			t.Errorf("%s comes before its issuer %s", p.Name, p.Issuer)
		}
		seen[p.Name] = true
		if found, ok := ProfileOf(p.Name); !ok || found.Base != p.Base {
			t.Errorf("ProfileOf does not find %s", p.Name)
		}
	}
	if _, ok := ProfileOf("sa"); ok {
		t.Error("the service account key pair has no certificate")
	}
}

func TestLocalEtcdOnly(t *testing.T) {
	var names []string
	for _, p := range Profiles() {
		if p.LocalEtcdOnly() {
			names = append(names, p.Name)
		}
	}
	want := []string{"etcd-ca", "etcd-server", "etcd-peer", "etcd-healthcheck-client",
		"apiserver-etcd-client"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestSharedFiles(t *testing.T) {
	want := []string{ServiceAccountKey, ServiceAccountPublicKey}
	for _, p := range Profiles() {
		if p.IsCA() {
			want = append(want, p.CertificateFile(), p.KeyFile())
		}
	}
	got := SharedFiles(true)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(SharedFiles(false)) != 6 {
		t.Errorf("with external etcd: %q", SharedFiles(false))
	}
}

func TestKubeconfigProfiles(t *testing.T) {
	const want = `
admin.conf kubernetes-admin [kubeadm:cluster-admins] local=false join=true
super-admin.conf kubernetes-super-admin [system:masters] local=false join=false
kubelet.conf system:node:cp1 [system:nodes] local=true join=false
controller-manager.conf system:kube-controller-manager [] local=true join=true
scheduler.conf system:kube-scheduler [] local=true join=true
`
	ca := newCA(t, "ca", day)
	var got strings.Builder
	for _, p := range KubeconfigProfiles() {
		spec := p.Spec("cp1", ca.Certificate, day.NotAfter)
		if spec.Validity.NotBefore != ca.Certificate.NotBefore || p.Purpose == "" ||
			p.File != p.Name+".conf" {
			t.Errorf("%s: valid %v, for %q, file %s", p.Name, spec.Validity, p.Purpose, p.File)
		}
		fmt.Fprintf(&got, "\n%s %s %v local=%v join=%v", p.File, spec.CommonName, spec.Organization,
			p.UsesLocalAPIServer, p.OnJoin)
	}
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got.String())); diff != "" {
		t.Error(diff)
	}
}
