package downloadcerts_test

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/downloadcerts"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/fake"
)

// loan is what a control plane lends: the files that all share, and the key that seals them.
type loan struct {
	key    pki.CertificateKey
	plain  map[string][]byte
	sealed map[string][]byte
}

func newLoan(t *testing.T) *loan {
	t.Helper()
	key, err := pki.NewCertificateKey(rand.Reader)
	must(t, err)
	l := &loan{key: key, plain: map[string][]byte{}, sealed: map[string][]byte{}}
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			cert, private := authority(t, p)
			l.plain[pki.SealedName(p.CertificateFile())], l.plain[pki.SealedName(p.KeyFile())] = cert, private
		}
	}
	signer, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	must(t, err)
	l.plain["sa.key"], err = pki.EncodeKey(signer)
	must(t, err)
	l.plain["sa.pub"], err = pki.EncodePublicKey(signer.Public())
	must(t, err)
	for name, data := range l.plain {
		l.sealed[name], err = key.Seal(rand.Reader, data)
		must(t, err)
	}
	return l
}

func authority(t *testing.T, p pki.Profile) (cert, private []byte) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	must(t, err)
	spec, _, err := p.Spec(pki.Site{NodeName: "cp1"}, pki.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)})
	must(t, err)
	ca, err := pki.NewCA(rand.Reader, key, spec)
	must(t, err)
	private, err = pki.EncodeKey(key)
	must(t, err)
	return pki.EncodeCertificates(ca.Certificate), private
}

// borrow runs the phase with that key on a machine beside a cluster that lends these values; nil: none.
func borrow(t *testing.T, w *fake.World, sealed map[string][]byte, key string) error {
	t.Helper()
	w.Elsewhere = true
	if sealed != nil {
		must(t, w.Do(t.Context(), change.ApplyObject{Object: manifest.Certs(sealed, &corev1.Secret{})}))
	}
	n := &node.Node{Local: node.Local{Role: node.ControlPlane, CertificateKey: key, Paths: node.DefaultPaths()}}
	n.Timeouts.KubernetesAPI = time.Second
	e := flow.New(flow.Env{
		World: w, Local: n.Local, Emit: func(flow.Event) {},
		Node: func(context.Context) (*node.Node, error) { return n, nil },
	})
	return flow.Run(t.Context(), e, []flow.Phase{downloadcerts.Phase}, flow.Selection{})
}

func TestLentFilesAreWrittenAsTheyAre(t *testing.T) {
	l, w := newLoan(t), fake.New()
	must(t, borrow(t, w, l.sealed, l.key.Hex()))
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

func TestWhatIsLentWronglyIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	other, err := pki.NewCertificateKey(rand.Reader)
	must(t, err)
	for name, c := range map[string]struct {
		alter func(l *loan)
		key   string // instead of the right one
		want  string
	}{
		"another key":     {func(*loan) {}, other.Hex(), "--certificate-key"},
		"a tampered file": {func(l *loan) { l.sealed["etcd-ca.key"][20] ^= 1 }, "", "opening etcd-ca.key"},
		"a file less":     {func(l *loan) { delete(l.sealed, "sa.key") }, "", `lacks "sa.key"`},
		"swapped files": {func(l *loan) {
			l.sealed["ca.key"], l.sealed["etcd-ca.key"] = l.sealed["etcd-ca.key"], l.sealed["ca.key"]
		}, "", "ca.crt and ca.key"},
		"no PEM":  {func(l *loan) { l.sealed["sa.pub"], _ = l.key.Seal(rand.Reader, []byte("x")) }, "", "sa.pub is neither a key nor a certificate"},
		"nothing": {func(l *loan) { l.sealed = nil }, "", "no control plane lends its certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := newLoan(t), fake.New()
			before := slices.Sorted(maps.Keys(w.Files))
			c.alter(l)
			key := c.key
			if key == "" {
				key = l.key.Hex()
			}
			err := borrow(t, w, l.sealed, key)
			if err == nil || !strings.Contains(err.Error()+strings.Join(problem.Hints(err), "\n"), c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if after := slices.Sorted(maps.Keys(w.Files)); !slices.Equal(after, before) {
				t.Errorf("these were written: %v", after)
			}
		})
	}
}

func TestFilesOfAnotherClusterAreNotWrittenOver(t *testing.T) {
	l, w := newLoan(t), fake.New()
	const file = "/etc/kubernetes/pki/ca.crt"
	must(t, w.Do(t.Context(), change.WriteFile{Path: file, Data: []byte("mine"), Mode: 0o644}))
	err := borrow(t, w, l.sealed, l.key.Hex())
	if err == nil || !strings.Contains(err.Error(), file+" is there already") || string(w.Files[file].Data) != "mine" {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
