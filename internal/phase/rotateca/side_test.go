package rotateca

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// testCA is a CA that signs certificates of kubelets.
func testCA(t *testing.T) pki.CA {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key,
		pki.Spec{CommonName: "kubernetes", Validity: pki.NewValidity(time.Now(), time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// finish is refused while the newest certificate that a worker's kubelet was given is of the old CA.
func TestKubeletIssuersBeforeFinish(t *testing.T) {
	before, after, other := testCA(t), testCA(t), testCA(t)
	type issue struct {
		ca  pki.CA
		age time.Duration
	}
	for name, test := range map[string]struct {
		node   string
		role   string // label of the Node
		issued []issue
		signer string
		want   bool // it is named
	}{
		"new":                       {"worker1", "", []issue{{after, 0}}, "", false},
		"old":                       {"worker1", "", []issue{{before, 0}}, "", true},
		"old, then new":             {"worker1", "", []issue{{after, 0}, {before, time.Minute}}, "", false},
		"new, then old":             {"worker1", "", []issue{{before, 0}, {after, time.Minute}}, "", true},
		"of another CA":             {"worker1", "", []issue{{other, 0}}, "", false},
		"of a deleted node":         {"worker9", "", []issue{{before, 0}}, "", false},
		"of a control plane node":   {"cp1", node.ControlPlaneLabel, []issue{{before, 0}}, "", false},
		"a serving certificate":     {"worker1", "", []issue{{before, 0}}, certificatesv1.KubeletServingSignerName, false},
		"none, or an hour has past": {"worker1", "", nil, "", false},
	} {
		w := fake.New()
		w.RemoteAPIServer = true
		for _, n := range []string{"worker1", "worker2", "cp1"} {
			o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{}}}
			o.SetGroupVersionKind(state.NodeKind)
			if n == test.node && test.role != "" {
				o.Labels[test.role] = ""
			}
			if err := w.PutObject(o); err != nil {
				t.Fatal(err)
			}
		}
		damaged := newClientRequest("damaged", []byte("x"))
		damaged.Status.Certificate = []byte("not PEM")
		if err := w.PutObject(damaged); err != nil {
			t.Fatal(err)
		}
		for i, c := range test.issued {
			key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
			if err != nil {
				t.Fatal(err)
			}
			cert, err := c.ca.Issue(rand.Reader, pki.Spec{
				CommonName: "system:node:" + test.node, Organization: []string{"system:nodes"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
				Validity: pki.NewValidity(time.Now().Add(-c.age), time.Hour)}, key.Public())
			if err != nil {
				t.Fatal(err)
			}
			csr := newClientRequest(test.node, []byte{byte(i)})
			csr.Status.Certificate = pki.EncodeCertificates(cert)
			if test.signer != "" {
				csr.Spec.SignerName = test.signer
			}
			if err := w.PutObject(csr); err != nil {
				t.Fatal(err)
			}
		}
		m := machine{node: &node.Node{}, e: engine.New(engine.Env{World: w}), State: &rotation.State{
			ID: "a", Stage: rotation.Sign, Authorities: []string{rotation.ClusterAuthority},
			Old: map[string]string{rotation.ClusterAuthority: string(pki.EncodeCertificates(before.Certificate))},
			New: map[string]string{rotation.ClusterAuthority: string(pki.EncodeCertificates(after.Certificate))}}}
		err := m.checkKubeletIssuers(t.Context(), rotation.Finish)
		if (err != nil) != test.want || err != nil && !strings.Contains(err.Error(), test.node) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// newClientRequest is the request of a kubelet for another client certificate.
func newClientRequest(name string, request []byte) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ca-rotation-%s-%x", name, request)},
		Spec: certificatesv1.CertificateSigningRequestSpec{Request: request,
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName},
	}
	csr.SetGroupVersionKind(
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
	return csr
}
