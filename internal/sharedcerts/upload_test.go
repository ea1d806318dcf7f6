package sharedcerts_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/sharedcerts"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// parameters is the block that `openssl ecparam -genkey` writes before a key.
const parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"

// upload runs the phase on a control plane whose files were edited.
func upload(t *testing.T, edit func(files map[string]string)) (*fake.World, error) {
	t.Helper()
	w, e, n := newUpload(t, edit)
	return w, sharedcerts.Upload(t.Context(), e, n, state.Identity{})
}

// newUpload is what upload runs with.
func newUpload(t *testing.T, edit func(files map[string]string)) (*fake.World, *engine.Env, *node.Node) {
	t.Helper()
	w, files := fake.New(), map[string]string{}
	for _, base := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
		must(t, err)
		ca, err := pki.NewCA(rand.Reader, key,
			pki.Spec{CommonName: base, Validity: pki.NewValidity(time.Now(), time.Hour)})
		must(t, err)
		text, err := pki.EncodeKey(key)
		must(t, err)
		files[base+".crt"], files[base+".key"] = string(pki.EncodeCertificates(ca.Certificate)),
			string(text)
	}
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	must(t, err)
	text, err := pki.EncodeKey(key)
	must(t, err)
	public, err := pki.EncodePublicKey(key.Public())
	must(t, err)
	files["sa.key"], files["sa.pub"] = string(text), string(public)
	edit(files)
	for name, text := range files {
		w.Files["/etc/kubernetes/pki/"+name] = memory.File{Data: []byte(text), Mode: 0o600}
	}
	w.RemoteAPIServer = true
	n := &node.Node{Local: node.Local{Role: node.ControlPlane,
		CertificateKey: strings.Repeat("5e", 32), Paths: node.DefaultPaths()}}
	return w, newEnv(w, n.Local), n
}

func newEnv(w world.World, local node.Local) *engine.Env {
	e := engine.New(engine.Env{World: w, Local: local, Emit: func(engine.Event) {},
		Rand: func(string) io.Reader { return rand.Reader }})
	e.Once = func(_ context.Context, _ string, make func() (string, error)) (string,
		error) {
		return make()
	}
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestKeysOfAnyFormAreUploaded(t *testing.T) {
	for name, edit := range map[string]func(map[string]string){
		"as kubeadm writes them": func(map[string]string) {},
		"EC PARAMETERS first": func(f map[string]string) {
			f["sa.key"] = parameters + f["sa.key"]
			f["ca.key"] = parameters + f["ca.key"]
		},
		"certificate with key": func(f map[string]string) { f["ca.crt"] += f["ca.key"] },
		"no key of etcd's CA":  func(f map[string]string) { delete(f, "etcd/ca.key") },
	} {
		t.Run(name, func(t *testing.T) {
			w, err := upload(t, edit)
			must(t, err)
			u, err := w.Object(t.Context(),
				state.RefOf(manifest.NewCertsSecret(nil, &corev1.Secret{}), state.Identity{}))
			must(t, err)
			if data, ok := u.Object["data"].(map[string]any); !ok || len(data) != 8 {
				t.Errorf("the Secret holds %v", u.Object)
			}
		})
	}
}

func TestUnusableFilesAreNotUploaded(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(map[string]string)
		want string
	}{
		"a damaged block": {func(f map[string]string) { f["ca.crt"] += f["ca.crt"][:90] },
			"ca.crt: only 1 of its 2 PEM blocks can be read"},
		"another sa.pub": {func(f map[string]string) { f["sa.pub"] = f["ca.key"] },
			"sa.pub is not the public key of sa.key"},
		"another key": {func(f map[string]string) { f["etcd/ca.key"] = f["ca.key"] },
			"etcd-ca.key does not match the certificate in etcd-ca.crt"},
		"an empty sa.pub": {func(f map[string]string) { f["sa.pub"] = "" },
			"/etc/kubernetes/pki/sa.pub is empty"},
		"an empty CA": {func(f map[string]string) { f["etcd/ca.crt"] = "" },
			"/etc/kubernetes/pki/etcd/ca.crt is empty"},
		"parameters only": {func(f map[string]string) { f["sa.key"] = parameters },
			"sa.key: it contains no private key"},
		"a key as sa's key": {func(f map[string]string) {
			f["sa.key"] = strings.ReplaceAll(f["sa.key"], "EC PRIVATE", "RSA PRIVATE")
		}, "sa.key: reading PEM block 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := upload(t, c.edit)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if _, err := w.Object(t.Context(),
				state.RefOf(manifest.NewCertsSecret(nil, &corev1.Secret{}),
					state.Identity{})); err == nil {
				t.Error("there is a Secret")
			}
		})
	}
}

// An upload that is resumed later lasts as long as the output says.
func TestResumedUploadIsRenewed(t *testing.T) {
	for later, renewed := range map[time.Duration]bool{time.Minute: false, time.Hour: true,
		3 * time.Hour: true} {
		w, e, n := newUpload(t, func(map[string]string) {})
		token := "abcdef.0123456789abcdef"
		e.Once = func(context.Context, string, func() (string, error)) (string, error) {
			return token, nil
		}
		begun := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
		var ends []string
		for _, now := range []time.Time{begun, begun.Add(later)} {
			w.Clock = func() time.Time { return now }
			must(t, sharedcerts.Upload(t.Context(), e, n, state.Identity{}))
			u, err := w.Object(t.Context(), state.Ref{
				GVK:       corev1.SchemeGroupVersion.WithKind("Secret"),
				Namespace: "kube-system", Name: "bootstrap-token-abcdef"})
			must(t, err)
			text, _, err := unstructured.NestedString(u.Object, "data", "expiration")
			must(t, err)
			end, err := base64.StdEncoding.DecodeString(text)
			must(t, err)
			ends = append(ends, string(end))
		}
		want := []string{"2026-09-01T14:00:00Z", "2026-09-01T14:00:00Z"}
		if renewed {
			want[1] = begun.Add(later + 2*time.Hour).Format(time.RFC3339)
		}
		if !slices.Equal(ends, want) {
			t.Errorf("resumed %s later: expires at %q, want %q", later, ends, want)
		}
	}
}
