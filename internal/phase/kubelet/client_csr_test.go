package kubelet

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

const tokenUser = "system:bootstrap:abcdef"

// asked creates a certificate signing request in the cluster, at that minute after noon.
func asked(t *testing.T, w *fake.World, minute int, edit func(*certv1.CertificateSigningRequest)) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Spec{CommonName: "system:node:worker1",
		Organization: []string{"system:nodes"}}.Request(rand.Reader, key)
	if err != nil {
		t.Fatal(err)
	}
	r := &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-own",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 9, 1, 12, minute, 0, 0, time.UTC))},
		Spec: certv1.CertificateSigningRequestSpec{Request: request,
			SignerName: certv1.KubeAPIServerClientKubeletSignerName, Username: tokenUser},
	}
	edit(r)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		t.Fatal(err)
	}
	kind := certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest").GroupKind()
	w.Objects[memory.Key{Kind: kind, Name: r.Name}] = &unstructured.Unstructured{Object: fields}
}

func decided(as certv1.RequestConditionType) func(*certv1.CertificateSigningRequest) {
	return func(r *certv1.CertificateSigningRequest) {
		r.Status.Conditions = []certv1.CertificateSigningRequestCondition{{Type: as,
			Status: corev1.ConditionTrue, Reason: "Because", Message: "of this"}}
	}
}

// waited runs a wait for a certificate that is not issued, and returns its output and error.
func waited(t *testing.T, w *fake.World) (said []string, err error) {
	t.Helper()
	config := pki.KubeconfigSpec{Server: "https://192.0.2.10:6443", Cluster: "c",
		User: "u"}.WithToken("abcdef.0123456789abcdef")
	bootstrap, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.RemoteAPIServer = true
	begun := w.Now()
	w.Clock = func() time.Time { begun = begun.Add(time.Second); return begun }
	n := &node.Node{Local: node.Local{Name: "worker1", Paths: node.DefaultPaths()},
		BootstrapKubeconfig: bootstrap}
	e := engine.New(engine.Env{World: w, Emit: func(e engine.Event) {
		if e.Kind == engine.Info && !strings.HasPrefix(e.Text, "still waiting") {
			said = append(said, e.Text)
		}
	}})
	never := world.Condition{Name: "it", Timeout: time.Minute,
		Check: func(context.Context, state.Reader) error { return errors.New("not yet") }}
	c, err := withRequestState(t.Context(), e, n, never)
	if err != nil {
		t.Fatal(err)
	}
	return said, e.Await(t.Context(), c)
}

func TestPendingRequestIsNamed(t *testing.T) {
	own := func(*certv1.CertificateSigningRequest) {}
	for name, c := range map[string]struct {
		requests []func(*certv1.CertificateSigningRequest)
		want     string
	}{
		"none": {nil, "not yet"},
		"waiting": {[]func(*certv1.CertificateSigningRequest){own},
			"its certificate signing request csr-own is pending: kubectl certificate approve csr-own"},
		"denied": {[]func(*certv1.CertificateSigningRequest){decided(certv1.CertificateDenied)},
			"csr-own is denied: Because: of this"},
		"failed": {[]func(*certv1.CertificateSigningRequest){decided(certv1.CertificateFailed)},
			"csr-own is failed: Because: of this"},
		"approved": {[]func(*certv1.CertificateSigningRequest){decided(certv1.CertificateApproved)},
			"csr-own is approved, but not signed"},
		"that of an earlier join": {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) {
			decided(certv1.CertificateApproved)(r)
			r.Status.Certificate = []byte("issued")
		}}, "not yet"},
		"an older one was denied": {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) {
			r.Name = "csr-old"
			decided(certv1.CertificateDenied)(r)
		}, own}, "csr-own is pending"},
		"two are waiting": {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) { r.Name = "csr-old" }, own},
			"check that they are all from this machine, then approve the newest: kubectl certificate approve csr-own (older: csr-old)"},
		"another node's": {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) {
			key, _ := pki.NewKey(rand.Reader, pki.ECDSAP256)
			r.Spec.Request, _ = pki.Spec{CommonName: "system:node:worker2"}.Request(rand.Reader,
				key)
		}}, "not yet"},
		"of another user":    {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) { r.Spec.Username = "system:bootstrap:zzzzzz" }}, "not yet"},
		"for another signer": {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) { r.Spec.SignerName = certv1.KubeletServingSignerName }}, "not yet"},
		"nonsense":           {[]func(*certv1.CertificateSigningRequest){func(r *certv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }}, "not yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			for i, edit := range c.requests {
				asked(t, w, i, edit)
			}
			said, err := waited(t, w)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if c.want == "not yet" && len(said) > 0 || c.want != "not yet" &&
				(len(said) != 1 || !strings.Contains(said[0], c.want)) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func TestRequestor(t *testing.T) {
	a := pki.KubeconfigSpec{Server: "https://192.0.2.10:6443", Cluster: "c", User: "u"}
	for want, config := range map[string]*pki.Kubeconfig{
		tokenUser: a.WithToken("abcdef.0123456789abcdef"), "": a.WithToken("of a service account"),
		"bootstrapper": certified(t, a),
	} {
		if got := findRequestor(config); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func certified(t *testing.T, a pki.KubeconfigSpec) *pki.Kubeconfig {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca, err := pki.NewCA(rand.Reader, key,
		pki.Spec{CommonName: "bootstrapper",
			Validity: pki.Validity{NotBefore: now, NotAfter: now.Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return a.WithCertificate(pki.EncodeCertificates(ca.Certificate), text)
}
