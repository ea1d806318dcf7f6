package pki

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd/api"
)

func TestDiscoveryClusterPrefersEmptyName(t *testing.T) {
	k := newAccess().WithToken("x")
	got, err := k.DiscoveryCluster()
	wantError(t, err)
	if got.Server != "https://10.0.0.4:6443" {
		t.Errorf("got %s", got.Server)
	}
	k.Clusters[""] = &api.Cluster{Server: "https://unnamed"}
	got, err = k.DiscoveryCluster()
	wantError(t, err)
	if got.Server != "https://unnamed" {
		t.Errorf("got %s", got.Server)
	}
	_, err = (&Kubeconfig{}).DiscoveryCluster()
	wantError(t, err, "no cluster")
	k.Clusters, k.CurrentContext = map[string]*api.Cluster{"a": {}}, ""
	_, err = k.DiscoveryCluster()
	wantError(t, err, "current context")
}

func TestBootstrapKubeconfigFromClusterInfo(t *testing.T) {
	ca := newCA(t, "kubernetes", day).Certificate
	a := newAccess()
	a.Server, a.CA = "https://lb:6443", EncodeCertificates(ca)
	info, err := a.WithCertificate([]byte("c"), []byte("k")).ClusterInfo()
	wantError(t, err)
	data, err := info.Encode()
	wantError(t, err)
	read, err := ParseKubeconfig(data)
	wantError(t, err)
	wantError(t, read.EmbedFiles(nil))
	cluster, err := read.DiscoveryCluster()
	wantError(t, err)
	k, err := NewBootstrapKubeconfig(cluster, "abcdef.0123456789abcdef")
	wantError(t, err)
	wantError(t, k.RenameCluster("prod"))
	k.SetServer("https://10.0.0.5:6443")
	want := &Kubeconfig{
		Clusters: map[string]*api.Cluster{"prod": {Server: "https://10.0.0.5:6443",
			CertificateAuthorityData: EncodeCertificates(ca)}},
		AuthInfos:      map[string]*api.AuthInfo{"tls-bootstrap-token-user": {Token: "abcdef.0123456789abcdef"}},
		Contexts:       map[string]*api.Context{"tls-bootstrap-token-user@kubernetes": {Cluster: "prod", AuthInfo: "tls-bootstrap-token-user"}},
		CurrentContext: "tls-bootstrap-token-user@kubernetes",
	}
	if diff := cmp.Diff(want, k); diff != "" {
		t.Error(diff)
	}
	endpoint, err := k.Endpoint()
	wantError(t, err)
	trusted, err := k.EmbeddedCAs()
	wantError(t, err)
	if endpoint != "10.0.0.5:6443" || len(trusted) != 1 || !trusted[0].Equal(ca) {
		t.Errorf("joins at %s, trusting %d", endpoint, len(trusted))
	}
}

func TestBootstrapNeedsCA(t *testing.T) {
	_, err := NewBootstrapKubeconfig(&api.Cluster{Server: "https://x",
		CertificateAuthorityData: []byte("none")}, "t")
	wantError(t, err, "discovered CA")
	a := newAccess()
	a.CA = nil
	_, err = a.WithToken("t").ClusterInfo()
	wantError(t, err, "CA certificate")
}

func TestRenameClusterNeedsCurrentContext(t *testing.T) {
	k := newAccess().WithToken("x")
	k.CurrentContext = "gone"
	wantError(t, k.RenameCluster("prod"), "gone")
}

func TestRenameClusterRemovesOthers(t *testing.T) {
	k := newAccess().WithToken("x")
	k.Clusters["other"], k.AuthInfos["other"] = &api.Cluster{Server: "https://other"},
		&api.AuthInfo{Token: "secret of another cluster"}
	k.Contexts["other"] = &api.Context{Cluster: "other", AuthInfo: "other"}
	wantError(t, k.RenameCluster("prod"))
	want := newAccess().WithToken("x")
	want.Clusters = map[string]*api.Cluster{"prod": want.Clusters["kubernetes"]}
	want.Contexts[want.CurrentContext].Cluster = "prod"
	if diff := cmp.Diff(want, k); diff != "" {
		t.Error(diff)
	}
}

func TestBootstrapKeepsProxyAndTLSServerName(t *testing.T) {
	a := newAccess()
	a.CA = EncodeCertificates(newCA(t, "kubernetes", day).Certificate)
	to := a.WithToken("").Clusters["kubernetes"]
	to.TLSServerName, to.ProxyURL = "api.example", "https://proxy.example:3128"
	bootstrap, err := NewBootstrapKubeconfig(to, "t")
	wantError(t, err)
	for _, k := range []*Kubeconfig{bootstrap, NewAnonymousKubeconfig(to)} {
		got, err := k.CurrentCluster()
		wantError(t, err)
		if diff := cmp.Diff(to, got); diff != "" {
			t.Error(diff)
		}
	}
	bootstrap.SetServer("https://10.0.0.5:6443")
	if got, err := bootstrap.CurrentCluster(); err != nil || got.TLSServerName != "" ||
		got.ProxyURL != "" {
		t.Errorf("Redirect keeps settings of the old server: %+v, %v", got, err)
	}
	if NewAnonymousKubeconfig(to).HasCredentials() {
		t.Error("the anonymous kubeconfig has credentials")
	}
}
