package discovery_test

import (
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/config"
	"kubeadm/internal/pki"
)

const discoveryFile = "/srv/discovery.conf"

// access is a kubeconfig of the cluster.
func (c cluster) access() pki.KubeconfigSpec {
	return pki.KubeconfigSpec{Server: c.URL, Cluster: "c", User: "u", CA: pem(c.ca)}
}

// admin returns the client certificate and key of an administrator.
func (c cluster) admin(t *testing.T) (cert, key []byte) {
	t.Helper()
	return pair(t, c.ca,
		pki.Spec{CommonName: "kubernetes-admin",
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Validity: valid()})
}

// has writes a kubeconfig to the machine.
func (m *machine) has(t *testing.T, name string, k *pki.Kubeconfig) {
	t.Helper()
	data, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m.file(name, data)
}

func fileFlags() config.JoinFlags {
	f := config.NewJoinFlags()
	f.DiscoveryFile = discoveryFile
	return f
}

func anonymous(a pki.KubeconfigSpec) *pki.Kubeconfig {
	k := a.WithToken("")
	return &pki.Kubeconfig{Clusters: map[string]*api.Cluster{"": k.Clusters[a.Cluster]}}
}

func TestDiscoveryFileCredentials(t *testing.T) {
	c := newCluster(t)
	c.closed = true // cluster-info is for known users only
	cert, key := c.admin(t)
	byFiles := func(dir string) func(*machine) *pki.Kubeconfig {
		return func(m *machine) *pki.Kubeconfig {
			m.file("/srv/pki/admin.crt", cert)
			m.file("/srv/pki/admin.key", key)
			m.file("/srv/pki/ca.crt", pem(c.ca))
			k := c.access().WithCertificate(nil, nil)
			to, user := k.Clusters["c"], k.AuthInfos["u"]
			to.CertificateAuthority, to.CertificateAuthorityData = dir+"pki/ca.crt", nil
			user.ClientCertificate, user.ClientKey = dir+"pki/admin.crt", dir+"pki/admin.key"
			return k
		}
	}
	for name, s := range map[string]struct {
		file func(m *machine) *pki.Kubeconfig
		want api.AuthInfo
	}{
		"token": {func(*machine) *pki.Kubeconfig { return c.access().WithToken(token) },
			api.AuthInfo{Token: token}},
		"certificate": {func(*machine) *pki.Kubeconfig {
			return c.access().WithCertificate(cert, key)
		}, api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}},
		"files": {byFiles("/srv/"),
			api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}},
		"files beside the kubeconfig": {byFiles(""),
			api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}},
		"token file": {func(m *machine) *pki.Kubeconfig {
			m.file("/srv/token", []byte(token+"\n"))
			k := c.access().WithToken("")
			k.AuthInfos["u"].TokenFile = "/srv/token"
			return k
		}, api.AuthInfo{Token: token}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			m.has(t, discoveryFile, s.file(m))
			a := m.joined(t, fileFlags())
			user := introduced(t, a)
			if user.Token != s.want.Token ||
				string(user.ClientCertificateData) != string(s.want.ClientCertificateData) ||
				string(user.ClientKeyData) != string(s.want.ClientKeyData) ||
				user.TokenFile+user.ClientCertificate+user.ClientKey != "" {
				t.Errorf("the kubelet is given %+v", user)
			}
			if strings.Contains(a.said, "does not publish a cluster-info") ||
				strings.Contains(a.said, tokenSecret) {
				t.Errorf("it says:\n%s", a.said)
			}
		})
	}
}

// program is an exec plugin that runs a line of a shell.
func program(line string) *api.ExecConfig {
	return &api.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "sh",
		InteractiveMode: api.NeverExecInteractiveMode, Args: []string{"-c", line}}
}

// The credentials of an exec plugin are not copied into the kubelet's kubeconfig.
func TestDiscoveryFileExecCredentials(t *testing.T) {
	c, m := newCluster(t), newMachine()
	k := c.access().WithToken("")
	k.AuthInfos["u"].Exec = program(
		`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"` + token + `"}}'`)
	m.has(t, discoveryFile, k)
	if user := introduced(t, m.joined(t, fileFlags())); user.Exec == nil ||
		user.Exec.Command != "sh" || user.Token != "" {
		t.Errorf("the kubelet is given %+v", user)
	}
	k.AuthInfos["u"].Exec, k.AuthInfos["u"].AuthProvider = nil,
		&api.AuthProviderConfig{Name: "oidc"}
	m = newMachine()
	m.has(t, discoveryFile, k)
	m.refused(t, fileFlags(), "oidc")
	flags := fileFlags()
	flags.Token = token
	if user := introduced(t, m.joined(t, flags)); user.Token != token || user.AuthProvider != nil {
		t.Errorf("the kubelet is given %+v", user)
	}
}

func TestTLSBootstrapTokenReplacesCredentials(t *testing.T) {
	c := newCluster(t)
	cert, key := c.admin(t)
	k := c.access().WithCertificate(cert, key)
	k.Clusters["other"], k.AuthInfos["other"] = &api.Cluster{Server: "https://192.0.2.9"},
		&api.AuthInfo{Token: "of another cluster"}
	for name, file := range map[string]*pki.Kubeconfig{"no user": anonymous(c.access()),
		"a user": k} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			m.has(t, discoveryFile, file)
			flags := fileFlags()
			flags.DiscoveryFile = "file://" + discoveryFile
			flags.TLSBootstrapToken = token
			a := m.joined(t, flags)
			if user := introduced(t, a); user.Token != token || user.ClientKeyData != nil {
				t.Errorf("the kubelet is given %+v", user)
			}
			if strings.Contains(string(a.node.BootstrapKubeconfig), "192.0.2.9") {
				t.Errorf("the kubelet is told of another cluster:\n%s", a.node.BootstrapKubeconfig)
			}
		})
	}
	if i := slices.Index(c.told, "certificate of kubernetes-admin"); i >= 0 {
		t.Errorf("the certificate was shown without need")
	}
}

// The client CA of an API server may be another one than that of its serving certificate.
func TestWarningAboutForeignClientCertificate(t *testing.T) {
	const warning = "the client certificate in " + discoveryFile +
		" is not signed by a CA that this file trusts"
	serving, client := authority(t, "serving"), authority(t, "client")
	c := cluster{&server{tokens: []string{token}, users: []string{"kubernetes-admin"},
		objects: stored(t)}, serving}
	c.begin(t, serving, client.Certificate)
	c.info = signed(t, leadingTo(t, c.URL, pem(serving)), token)
	cert, key := cluster{c.server, client}.admin(t)
	k := c.access().WithCertificate(cert, key)
	join := func(k *pki.Kubeconfig, tlsToken string) attempt {
		m, flags := newMachine(), fileFlags()
		flags.TLSBootstrapToken = tlsToken
		m.has(t, discoveryFile, k)
		return m.joined(t, flags)
	}
	if a := join(k, ""); !strings.Contains(a.said, warning) ||
		!strings.Contains(a.said, `CA "serving"`) {
		t.Errorf("no warning about a client certificate of another CA:\n%s", a.said)
	}
	if a := join(k, token); strings.Contains(a.said, warning) {
		t.Errorf("a warning about a client certificate that a token replaces:\n%s", a.said)
	}
	k.Clusters["c"].CertificateAuthorityData = append(pem(serving), pem(client)...)
	if a := join(k, ""); strings.Contains(a.said, warning) {
		t.Errorf("a warning about a client certificate whose CA is in the file:\n%s", a.said)
	}
}

func TestDiscoveryFileAndClusterInfo(t *testing.T) {
	const lb = "https://192.0.2.99:6443"
	for name, s := range map[string]struct {
		told func(t *testing.T, c cluster)
		want string
	}{
		"the same": {func(*testing.T, cluster) {}, ""},
		"another server": {func(t *testing.T, c cluster) {
			c.info = signed(t, leadingTo(t, lb, pem(c.ca)), token)
		}, "the cluster's server is " + strconv.Quote(lb) + " in its cluster-info"},
		"nothing": {func(_ *testing.T, c cluster) {
			c.answers = map[string]http.HandlerFunc{infoPath: func(w http.ResponseWriter, _ *http.Request) { fail(w, 403, metav1.StatusReasonForbidden) }}
		}, "does not publish a cluster-info to compare " + discoveryFile + " with: "},
		"nothing at all": {func(_ *testing.T, c cluster) {
			c.answers = map[string]http.HandlerFunc{infoPath: func(w http.ResponseWriter, _ *http.Request) { fail(w, 404, metav1.StatusReasonNotFound) }}
		}, "does not publish a cluster-info to compare " + discoveryFile + " with: "},
		"nonsense": {func(_ *testing.T, c cluster) { c.info = map[string]string{"kubeconfig": ":\n-"} }, "does not publish a cluster-info to compare " + discoveryFile + " with: "},
		"no key": {func(_ *testing.T, c cluster) { c.info = map[string]string{} },
			`has no key "kubeconfig"`},
	} {
		t.Run(name, func(t *testing.T) {
			c, m := newCluster(t), newMachine()
			s.told(t, c)
			m.has(t, discoveryFile, c.access().WithToken(token))
			a := m.joined(t, fileFlags())
			if !strings.Contains(a.said, s.want) || s.want == "" &&
				(strings.Contains(a.said, "the cluster's server is") ||
					strings.Contains(a.said, "does not publish a cluster-info")) {
				t.Errorf("it does not say %q but\n%s", s.want, a.said)
			}
			boot, err := pki.ParseKubeconfig(a.node.BootstrapKubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if to, err := boot.CurrentCluster(); err != nil || to.Server != c.URL ||
				string(to.CertificateAuthorityData) != string(pem(c.ca)) {
				t.Errorf("the kubelet is led to %+v, %v", to, err)
			}
		})
	}
}

func TestDiscoveryFileErrors(t *testing.T) {
	c := newCluster(t)
	mallory := authority(t, "kubernetes")
	attacker := (&server{info: c.info, tokens: c.tokens, objects: c.objects}).begin(t, mallory, nil)
	encoded := base64.StdEncoding.EncodeToString(pem(c.ca))
	for name, s := range map[string]struct {
		file  func(k *pki.Kubeconfig)
		text  string // in place of the file
		edit  func(f *config.JoinFlags)
		words []string
	}{
		"another server behind the address": {file: func(k *pki.Kubeconfig) { k.Clusters["c"].Server = attacker.URL },
			words: []string{attacker.URL,
				"is not signed by the cluster's CA, so a different server answers",
				"if the CA of the cluster was replaced"}},
		"a self-signed server, without a CA in the file": {file: func(k *pki.Kubeconfig) {
			k.Clusters["c"].Server, k.Clusters["c"].CertificateAuthorityData = attacker.URL, nil
		}, words: []string{attacker.URL, "failed to verify certificate",
			"this machine's trust store"}},
		"verification turned off": {file: func(k *pki.Kubeconfig) {
			k.Clusters["c"] = &api.Cluster{Server: attacker.URL, InsecureSkipTLSVerify: true}
		}, words: []string{discoveryFile, "insecure-skip-tls-verify"}},
		"plain http": {file: func(k *pki.Kubeconfig) {
			k.Clusters["c"].Server = strings.Replace(attacker.URL, "https", "http", 1)
		},
			words: []string{discoveryFile, "is not an https URL"}},
		"a CA that was not meant": {edit: func(f *config.JoinFlags) { f.CACertHashes = []string{pki.PinOf(mallory.Certificate).String()} },
			words: []string{discoveryFile + " is for a different cluster",
				pki.PinOf(c.ca.Certificate).String()}},
		"an unknown token in the file": {file: func(k *pki.Kubeconfig) { k.AuthInfos["u"].Token = "unknown" },
			words: []string{"does not accept the credentials in " + discoveryFile,
				"--tls-bootstrap-token"}},
		"an unknown token besides": {edit: func(f *config.JoinFlags) {
			f.Token = "zzzzzz." + tokenSecret
		},
			words: []string{"does not accept the bootstrap token",
				"kubeadm token create --print-join-command"}},
		"no credentials": {file: func(k *pki.Kubeconfig) { *k = *anonymous(c.access()) },
			words: []string{discoveryFile, "has no credentials to join the cluster", "no current context",
				"--tls-bootstrap-token"}},
		"a user that is not there": {file: func(k *pki.Kubeconfig) { delete(k.AuthInfos, "u") },
			words: []string{"has no credentials to join the cluster", `user "u"`}},
		"a client certificate without its key": {file: func(k *pki.Kubeconfig) {
			k.AuthInfos["u"] = &api.AuthInfo{ClientCertificateData: pki.EncodeCertificates(
				c.ca.Certificate)}
		}, words: []string{discoveryFile, "client certificate without its key"}},
		"a context that is not there": {file: func(k *pki.Kubeconfig) { k.Clusters[""] = k.Clusters["c"]; k.CurrentContext = "gone" },
			words: []string{discoveryFile, `its current-context "gone" does not exist`}},
		"no cluster": {file: func(k *pki.Kubeconfig) { k.Clusters = nil },
			words: []string{discoveryFile, "no cluster"}},
		"a missing token": {file: func(k *pki.Kubeconfig) { k.AuthInfos["u"].TokenFile = "/srv/gone" }, words: []string{discoveryFile, "/srv/gone"}},
		"a broken CA":     {file: func(k *pki.Kubeconfig) { k.Clusters["c"].CertificateAuthorityData = []byte("none") }, words: []string{discoveryFile, "reading its CA"}},
		"no kubeconfig": {text: "<html>" + encoded,
			words: []string{discoveryFile + " is not a kubeconfig",
				"kubectl get configmap cluster-info"}},
		"no file": {edit: func(f *config.JoinFlags) { f.DiscoveryFile = "/srv/gone" },
			words: []string{"discovery file /srv/gone does not exist"}},
		"a remote file over plain http": {edit: func(f *config.JoinFlags) { f.DiscoveryFile = "http://192.0.2.1/f" },
			words: []string{"--discovery-file", "https URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, k, flags := newMachine(), c.access().WithToken(token), fileFlags()
			if s.file != nil {
				s.file(k)
			}
			m.has(t, discoveryFile, k)
			if s.text != "" {
				m.file(discoveryFile, []byte(s.text))
			}
			if s.edit != nil {
				s.edit(&flags)
			}
			m.refused(t, flags, s.words...)
		})
	}
	attacker.toldNothing(t)
}
