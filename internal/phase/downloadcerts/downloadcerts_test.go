package downloadcerts_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/downloadcerts"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// upload has the files that a control plane uploads, and the key that encrypts them.
type upload struct {
	ca        []byte // the discovered CA
	key       pki.CertificateKey
	plain     map[string][]byte
	encrypted map[string][]byte
}

func newUpload(t *testing.T) *upload {
	t.Helper()
	key, err := pki.NewCertificateKey(rand.Reader)
	must(t, err)
	l := &upload{key: key, plain: map[string][]byte{}, encrypted: map[string][]byte{}}
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			cert, private := authority(t, p)
			l.plain[pki.UploadedName(p.CertificateFile())], l.plain[pki.UploadedName(
				p.KeyFile())] = cert, private
		}
	}
	l.ca = l.plain["ca.crt"]
	signer, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	must(t, err)
	l.plain["sa.key"], err = pki.EncodeKey(signer)
	must(t, err)
	l.plain["sa.pub"], err = pki.EncodePublicKey(signer.Public())
	must(t, err)
	for name := range l.plain {
		l.put(t, name, l.plain[name])
	}
	return l
}

// put encrypts another content of a file.
func (l *upload) put(t *testing.T, name string, data []byte) {
	t.Helper()
	encrypted, err := l.key.Encrypt(rand.Reader, data)
	must(t, err)
	l.plain[name], l.encrypted[name] = data, encrypted
}

// bootstrap is the kubeconfig of discovery.
func (l *upload) bootstrap(t *testing.T) []byte {
	t.Helper()
	data, err := pki.KubeconfigSpec{Server: "https://192.0.2.1:6443", Cluster: "kubernetes",
		User: "u", CA: l.ca}.WithToken("t").Encode()
	must(t, err)
	return data
}

func authority(t *testing.T, p pki.Profile) (cert, private []byte) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	must(t, err)
	spec, _, err := p.Spec(pki.NodeNames{NodeName: "cp1"},
		pki.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)})
	must(t, err)
	ca, err := pki.NewCA(rand.Reader, key, spec)
	must(t, err)
	private, err = pki.EncodeKey(key)
	must(t, err)
	return pki.EncodeCertificates(ca.Certificate), private
}

// download runs the phase with that key on a machine that has discovered the cluster. Its Secret
// has the encrypted files; nil: there is no Secret.
func (l *upload) download(t *testing.T, w *fake.World, key string) error {
	t.Helper()
	return l.downloadIn(t, w, w, key)
}

// downloadIn is download with a world around that of the machine.
func (l *upload) downloadIn(t *testing.T, w *fake.World, around world.World, key string) error {
	t.Helper()
	w.RemoteAPIServer = true
	if l.encrypted != nil {
		must(t, w.Do(t.Context(),
			change.ApplyObject{Object: manifest.NewCertsSecret(l.encrypted, &corev1.Secret{})}))
	}
	n := &node.Node{Local: node.Local{Role: node.ControlPlane, CertificateKey: key,
		Paths: node.DefaultPaths()}}
	n.BootstrapKubeconfig = l.bootstrap(t)
	n.Timeouts.KubernetesAPI = time.Second
	e := engine.New(engine.Env{
		World: around, Local: n.Local, Emit: func(engine.Event) {},
		Node: func(context.Context) (*node.Node, error) { return n, nil },
	})
	return engine.Run(t.Context(), e, []engine.Phase{downloadcerts.Phase}, engine.Selection{})
}

func TestDownloadedFilesAreWritten(t *testing.T) {
	l, w := newUpload(t), fake.New()
	must(t, l.download(t, w, l.key.Hex()))
	for name, data := range l.plain {
		path := "/etc/kubernetes/pki/" + strings.Replace(name, "etcd-", "etcd/", 1)
		f := w.Files[path]
		if string(f.Data) != string(data) {
			t.Errorf("%s holds something else", path)
		}
		if secret := strings.HasSuffix(name, ".key"); secret != (f.Mode == 0o600) {
			t.Errorf("%s has mode %o", path, f.Mode)
		}
	}
}

// resumed is a machine on which an earlier run of the same command has written all files.
type resumed struct{ world.World }

func (resumed) WasCreated(string) bool { return true }

func TestDownloadIsNotRepeated(t *testing.T) {
	for _, missing := range []string{"", "etcd-ca.key"} {
		l, w := newUpload(t), fake.New()
		if missing != "" {
			l.encrypted[missing] = nil
		}
		w.Clock = time.Now
		must(t, l.download(t, w, l.key.Hex()))
		for key := range w.Objects { // the Secret expires
			delete(w.Objects, key)
		}
		l.encrypted = nil
		if err := l.downloadIn(t, w, resumed{w}, l.key.Hex()); err != nil {
			t.Errorf("without %q: %v", missing, err)
		}
		delete(w.Files, "/etc/kubernetes/pki/ca.key")
		if err := l.downloadIn(t, w, resumed{w}, l.key.Hex()); err == nil {
			t.Error("the key of the cluster's CA was not missed")
		}
	}
}

func TestBadUploadIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	other, err := pki.NewCertificateKey(rand.Reader)
	must(t, err)
	for name, c := range map[string]struct {
		alter func(l *upload)
		key   string // instead of the right one
		want  string
	}{
		"another key": {func(*upload) {}, other.Hex(), "--certificate-key"},
		"a tampered file": {func(l *upload) { l.encrypted["etcd-ca.key"][20] ^= 1 }, "",
			"decrypting etcd-ca.key"},
		"a file less": {func(l *upload) { delete(l.encrypted, "sa.key") }, "", `does not contain "sa.key"`},
		"swapped files": {func(l *upload) {
			l.encrypted["ca.key"], l.encrypted["etcd-ca.key"] = l.encrypted["etcd-ca.key"],
				l.encrypted["ca.key"]
		}, "", "ca.key does not match the certificate in ca.crt"},
		"no PEM": {func(l *upload) {
			l.encrypted["sa.pub"], _ = l.key.Encrypt(rand.Reader, []byte("x"))
		}, "", "sa.pub: neither a key nor a certificate in PEM form found"},
		"nothing": {func(l *upload) { l.encrypted = nil }, "", "no certificates are uploaded"},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := newUpload(t), fake.New()
			before := slices.Sorted(maps.Keys(w.Files))
			c.alter(l)
			key := c.key
			if key == "" {
				key = l.key.Hex()
			}
			err := l.download(t, w, key)
			if err == nil || !strings.Contains(err.Error()+strings.Join(problem.Hints(err), "\n"),
				c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if after := slices.Sorted(maps.Keys(w.Files)); !slices.Equal(after, before) {
				t.Errorf("these were written: %v", after)
			}
		})
	}
}

// ecKey is a key as `openssl ecparam -genkey` writes it, with its public half.
func ecKey(t *testing.T) (private, public []byte, signer crypto.Signer) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	must(t, err)
	text, err := pki.EncodeKey(key)
	must(t, err)
	public, err = pki.EncodePublicKey(key.Public())
	must(t, err)
	return append([]byte(
			"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"),
			text...),
		public, key
}

// reencoded returns a key as PKCS#8.
func reencoded(t *testing.T, data []byte) []byte {
	t.Helper()
	key, err := pki.ParseKey(data)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// A file with a private key is readable by root only, in whatever block the key is.
func TestDownloadedKeysAreReadableByRootOnly(t *testing.T) {
	secret := []string{"ca.key", "etcd-ca.key", "front-proxy-ca.key", "sa.key"}
	for name, c := range map[string]struct {
		alter func(t *testing.T, l *upload)
		more  []string // files that hold a key besides
	}{
		"EC PARAMETERS first": {alter: func(t *testing.T, l *upload) {
			private, public, _ := ecKey(t)
			l.put(t, "sa.key", private)
			l.put(t, "sa.pub", public)
		}},
		"PKCS#8": {alter: func(t *testing.T, l *upload) {
			for _, name := range secret {
				l.put(t, name, reencoded(t, l.plain[name]))
			}
		}},
		"certificate and key in one file": {alter: func(t *testing.T, l *upload) {
			l.put(t, "ca.crt", append(slices.Clone(l.plain["ca.crt"]), l.plain["ca.key"]...))
		}, more: []string{"ca.crt"}},
		"the certificate before the key": {alter: func(t *testing.T, l *upload) {
			both := append(slices.Clone(l.plain["etcd-ca.crt"]), l.plain["etcd-ca.key"]...)
			l.put(t, "etcd-ca.crt", both)
			l.put(t, "etcd-ca.key", both)
		}, more: []string{"etcd-ca.crt"}},
		"a private key as sa.pub": {alter: func(t *testing.T, l *upload) {
			l.put(t, "sa.pub", l.plain["sa.key"])
		}, more: []string{"sa.pub"}},
		"two public keys": {alter: func(t *testing.T, l *upload) {
			_, other, _ := ecKey(t)
			l.put(t, "sa.pub", append(other, l.plain["sa.pub"]...))
		}},
		"explanatory text": {alter: func(t *testing.T, l *upload) {
			l.put(t, "ca.crt", append([]byte("subject=CN = kubernetes\n"), l.plain["ca.crt"]...))
		}},
		"no key of etcd's CA": {alter: func(_ *testing.T, l *upload) { l.encrypted["etcd-ca.key"] = []byte{}; delete(l.plain, "etcd-ca.key") }},
		"an empty key of etcd's CA": {alter: func(t *testing.T, l *upload) {
			l.put(t, "etcd-ca.key", nil)
			delete(l.plain, "etcd-ca.key")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := newUpload(t), fake.New()
			c.alter(t, l)
			must(t, l.download(t, w, l.key.Hex()))
			for name, data := range l.plain {
				f := w.Files["/etc/kubernetes/pki/"+strings.Replace(name, "etcd-", "etcd/", 1)]
				if want := slices.Contains(append(secret, c.more...),
					name); want != (f.Mode == 0o600) || string(f.Data) != string(data) {
					t.Errorf("%s has mode %o; a secret: %t", name, f.Mode, want)
				}
			}
		})
	}
}

// An old Secret, or one of another cluster, is detected before any file is written.
func TestDownloadedFilesMustMatch(t *testing.T) {
	other := newUpload(t)
	take := func(names ...string) func(*testing.T, *upload) {
		return func(t *testing.T, l *upload) {
			for _, name := range names {
				l.put(t, name, other.plain[name])
			}
		}
	}
	damage := func(name string, edit func(text string) string) func(*testing.T, *upload) {
		return func(t *testing.T, l *upload) { l.put(t, name, []byte(edit(string(l.plain[name])))) }
	}
	for name, c := range map[string]struct {
		alter func(t *testing.T, l *upload)
		want  string
	}{
		"all of another cluster": {take(slices.Collect(maps.Keys(other.plain))...),
			"is not the CA of the discovered cluster"},
		"another cluster's CA": {take("ca.crt", "ca.key"), "ca.crt, with hash sha256:"},
		"another key of the CA": {take("front-proxy-ca.key"),
			"front-proxy-ca.key does not match the certificate in front-proxy-ca.crt"},
		"another sa.pub": {take("sa.pub"), "sa.pub is not the public key of sa.key"},
		"another sa.key": {take("sa.key"), "sa.pub is not the public key of sa.key"},
		"a key as certificate": {damage("ca.crt",
			func(string) string { return string(other.plain["ca.key"]) }),
			"ca.crt: it contains no certificate"},
		"a certificate as key": {damage("ca.key",
			func(string) string { return string(other.plain["ca.crt"]) }),
			"ca.key: it contains no private key"},
		"parameters without a key": {damage("sa.pub", func(string) string {
			return "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
		}), "sa.pub: it contains no key"},
		"an encrypted key": {damage("sa.key",
			func(s string) string {
				return strings.ReplaceAll(s, "EC PRIVATE",
					"ENCRYPTED PRIVATE")
			}), "sa.key: reading PEM block 1, \"ENCRYPTED PRIVATE KEY\": the private key is encrypted"},
		"a second block cut off": {damage("etcd-ca.crt",
			func(s string) string { return s + s[:100] }),
			"etcd-ca.crt: only 1 of its 2 PEM blocks can be read"},
		"a second block of nonsense": {damage("ca.crt",
			func(s string) string {
				return s +
					"-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n"
			}), "ca.crt: reading PEM block 2"},
		"an empty certificate": {func(_ *testing.T, l *upload) { l.encrypted["ca.crt"] = []byte{} },
			`does not contain "ca.crt"`},
		"a encrypted empty certificate": {damage("ca.crt", func(string) string { return "" }),
			`does not contain "ca.crt"`},
		"a encrypted empty sa.pub": {damage("sa.pub", func(string) string { return "" }),
			`does not contain "sa.pub"`},
		"a leaf as CA": {func(t *testing.T, l *upload) {
			key, err := pki.ParseKey(l.plain["etcd-ca.key"])
			must(t, err)
			certs, err := pki.ParseCertificates(l.plain["etcd-ca.crt"])
			must(t, err)
			leaf, err := pki.CA{Certificate: certs[0], Key: key}.Issue(rand.Reader,
				pki.Spec{CommonName: "x", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
					Validity: pki.Validity{NotBefore: time.Now(),
						NotAfter: time.Now().Add(time.Hour)}}, key.Public())
			must(t, err)
			l.put(t, "etcd-ca.crt", pki.EncodeCertificates(leaf))
		}, "etcd-ca.crt is not a certificate authority"},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := newUpload(t), fake.New()
			before := slices.Sorted(maps.Keys(w.Files))
			c.alter(t, l)
			err := l.download(t, w, l.key.Hex())
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if after := slices.Sorted(maps.Keys(w.Files)); !slices.Equal(after, before) {
				t.Errorf("these were written: %v", after)
			}
		})
	}
}

func TestFilesOfAnotherClusterAreNotOverwritten(t *testing.T) {
	l, w := newUpload(t), fake.New()
	const file = "/etc/kubernetes/pki/ca.crt"
	must(t, w.Do(t.Context(), change.WriteFile{Path: file, Data: []byte("mine"), Mode: 0o644}))
	err := l.download(t, w, l.key.Hex())
	if err == nil || !strings.Contains(err.Error(), file+" exists, but differs") ||
		string(w.Files[file].Data) != "mine" {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
