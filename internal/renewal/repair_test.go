package renewal_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"io"
	"testing"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/renewal"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

const validity = 100 * time.Hour

var paths = node.DefaultPaths()

// newControlPlane is a machine with a running kubelet, the cluster's CA and the API server's
// certificate.
func newControlPlane(t *testing.T) *fake.World {
	t.Helper()
	w := fake.New()
	w.Services["kubelet"] = state.Service{Exists: true, Enabled: true, Active: true, Since: w.Now()}
	write := func(path string, data []byte) {
		if err := w.Do(t.Context(), change.WriteFile{Path: path, Data: data, Secret: true}); err != nil {
			t.Fatal(err)
		}
	}
	writeKey := func(path string) crypto.Signer {
		key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		text, err := pki.EncodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(path, text)
		return key
	}
	valid := pki.NewValidity(w.Now(), validity)
	ca, err := pki.NewCA(rand.Reader, writeKey(paths.Key("ca")),
		pki.Spec{CommonName: "kubernetes", Validity: valid})
	if err != nil {
		t.Fatal(err)
	}
	write(paths.Cert("ca"), pki.EncodeCertificates(ca.Certificate))
	cert, err := ca.Issue(rand.Reader, pki.Spec{CommonName: "kube-apiserver",
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Validity: valid},
		writeKey(paths.Key("apiserver")).Public())
	if err != nil {
		t.Fatal(err)
	}
	write(paths.Cert("apiserver"), pki.EncodeCertificates(cert))
	return w
}

func newEnv(w world.World) *engine.Env {
	local := node.Local{Role: node.ControlPlane, Paths: paths}
	return engine.New(engine.Env{World: w, Local: local,
		Node: engine.Resolved(&node.Node{Local: local}),
		Rand: func(string) io.Reader { return rand.Reader }, Emit: func(engine.Event) {}})
}

// withoutInitSystem is a machine whose user starts the kubelet, as in a container.
type withoutInitSystem struct{ *fake.World }

func (w *withoutInitSystem) Service(context.Context, string) (state.Service, error) {
	return state.Service{}, state.ErrNoInitSystem
}

// A key of another certificate is replaced together with its certificate, which stays valid for as
// long as the old one was; then the kubelet is restarted. What fits is left alone.
func TestRepair(t *testing.T) {
	serving := pki.Renewable{Name: "apiserver", Base: "apiserver"}
	for name, mismatched := range map[string]bool{"interrupted": true, "consistent": false} {
		t.Run(name+" without init system", func(t *testing.T) {
			w := &withoutInitSystem{newControlPlane(t)}
			if mismatched {
				w.Files[paths.Key("apiserver")] = newControlPlane(t).Files[paths.Key("apiserver")]
			}
			if err := renewal.Repair(t.Context(), newEnv(w)); err != nil {
				t.Error(err)
			}
			if err := certstore.CheckRenewableKey(t.Context(), w, paths, serving); err != nil {
				t.Error(err)
			}
		})
		t.Run(name, func(t *testing.T) {
			w := newControlPlane(t)
			if mismatched {
				other := newControlPlane(t).Files[paths.Key("apiserver")]
				w.Files[paths.Key("apiserver")] = other
			}
			before, started := w.Snapshot(), w.Services["kubelet"].Since
			if err := renewal.Repair(t.Context(), newEnv(w)); err != nil {
				t.Fatal(err)
			}
			if changed := w.Snapshot() != before; changed != mismatched {
				t.Errorf("something was changed: %t", changed)
			}
			if restarted := w.Services["kubelet"].Since.After(started); restarted != mismatched {
				t.Errorf("the kubelet was restarted: %t", restarted)
			}
			if err := certstore.CheckRenewableKey(t.Context(), w, paths, serving); err != nil {
				t.Error(err)
			}
			cert, err := certstore.ReadRenewable(t.Context(), w, paths, serving)
			if err != nil {
				t.Fatal(err)
			}
			if left := cert.NotAfter.Sub(w.Now()); left < validity-time.Minute {
				t.Errorf("the certificate is valid for %s, want %s", left, validity)
			}
		})
	}
}
