package rotateca

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

func newTestCA(t *testing.T, name string) string {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key,
		pki.Spec{CommonName: name, Validity: pki.NewValidity(time.Now(), time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(ca.Certificate))
}

// The kubelet of a worker goes on to accept the CAs that the user has added.
func TestClientCAsOfUserAreKept(t *testing.T) {
	const file = "/srv/client-cas.crt"
	before, after, own := newTestCA(t, "kubernetes"), newTestCA(t, "kubernetes"),
		newTestCA(t, "users")
	w := fake.New()
	m := machine{State: &rotation.State{Old: map[string]string{rotation.ClusterAuthority: before},
		New: map[string]string{rotation.ClusterAuthority: after}}, e: engine.New(engine.Env{World: w})}
	for _, test := range []struct {
		stage    rotation.Stage
		was, now string
	}{
		{rotation.Trust, "", before + after},
		{rotation.Trust, before, before + after},
		{rotation.Trust, before + own, before + after + own},
		{rotation.Trust, before + after + own, before + after + own},
		{rotation.Sign, before + after + own, after + before + own},
		{rotation.Finish, after + before + own, after + own},
		{rotation.Undo, own + before + after, before + own},
	} {
		delete(w.Files, file)
		if test.was != "" {
			w.Files[file] = memory.File{Data: []byte(test.was), Mode: 0o644}
		}
		got, err := m.newClientCAs(t.Context(), file, test.stage)
		if err != nil || string(got) != test.now {
			t.Errorf("%s after %q: %v\n%s", test.stage, test.was, err, got)
		}
	}
	w.Files[file] = memory.File{Data: []byte("no PEM"), Mode: 0o644}
	if _, err := m.newClientCAs(t.Context(), file, rotation.Trust); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("a file without certificates: %v", err)
	}
}

// forbidden is a world of a kubelet that may not read any object.
type forbidden struct{ world.World }

func (forbidden) Object(_ context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, ref.Name, nil)
}

// Once the rotation is complete, kubelets may not read its state any more.
func TestWorkerAfterRotation(t *testing.T) {
	m := machine{node: &node.Node{}, e: engine.New(engine.Env{World: forbidden{fake.New()}})}
	err := runWorker(t.Context(), m, rotation.Finish)
	if err == nil || !strings.Contains(err.Error(), "no rotation is in progress") {
		t.Errorf("%v", err)
	}
}

// Both kinds of errors of a stage are in one line.
func TestJoinErrors(t *testing.T) {
	all := []error{errKeyMissing, context.Canceled, context.DeadlineExceeded}
	var texts []string
	for _, err := range all {
		texts = append(texts, err.Error())
	}
	if got := joinErrors(all).Error(); got != strings.Join(texts, "; ") ||
		!slices.Contains(texts, joinErrors(all[:1]).Error()) {
		t.Errorf("%q", got)
	}
}
