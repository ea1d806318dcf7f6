package localkubelet

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// RequestOptions says how a certificate is requested from the cluster.
type RequestOptions struct {
	Name    string // how the name of the CertificateSigningRequest begins
	As      state.Identity
	Timeout time.Duration
	// Node is the node that the certificate is for, if not that of the one in use. As, an administrator, approves the
	// request then.
	Node string
}

// Request asks the cluster for another client certificate with the subject of the one in use, as the
// kubelet does when it rotates its own, and waits until it is issued. The certificate of the pair is
// empty in a dry run.
func (c *ClientCert) Request(ctx context.Context, e *engine.Env,
	q RequestOptions) (ClientPair, error) {
	key, err := newKey(e)
	if err != nil {
		return ClientPair{}, err
	}
	spec := pki.RenewalSpec(c.Certificate, pki.Validity{})
	if q.Node != "" {
		spec = pki.ClientSpec(userPrefix+q.Node, []string{"system:nodes"}, pki.Validity{})
	}
	request, err := spec.Request(e.Rand("kubelet-client/request"), key)
	if err != nil {
		return ClientPair{}, err
	}
	digest := sha256.Sum256(request)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%x", q.Name, digest[:5])},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth},
		},
	}
	csr.SetGroupVersionKind(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
	e.Say("requesting a client certificate for the kubelet: CertificateSigningRequest %s", csr.Name)
	if err := e.Do(ctx, change.ApplyObject{Object: csr, As: q.As, Keep: true}); err != nil {
		return ClientPair{}, err
	}
	if q.Node != "" {
		if err := e.Do(ctx, approval(csr, q)); err != nil {
			return ClientPair{}, err
		}
	}
	p := ClientPair{Key: key}
	err = e.Await(ctx, world.Condition{
		Name:    "the client certificate of the kubelet",
		Timeout: q.Timeout,
		Check: func(ctx context.Context, r state.Reader) error {
			p.Certificate, err = readIssued(ctx, r, state.RefOf(csr, q.As))
			return err
		},
	})
	if err != nil {
		return ClientPair{}, problem.New(err,
			untrusted.CommandHint("look at the request", "kubectl get csr", csr.Name),
			untrusted.CommandHint("approve it if it is pending", "kubectl certificate approve", csr.Name))
	}
	if p.Certificate == nil {
		return p, nil // in a dry run, nothing is issued
	}
	certs, err := pki.ParseCertificates(p.Certificate)
	if err == nil && !pki.IsKeyOf(key, certs[0].PublicKey) {
		err = errors.New("the issued certificate is not for the requested key")
	}
	return p, err
}

// approval approves a request that this run has made: its name has the digest of the request.
func approval(csr *certificatesv1.CertificateSigningRequest, q RequestOptions) change.Change {
	return change.MutateObject{Object: csr, As: q.As, Subresource: "approval",
		Mutate: func(u *unstructured.Unstructured) error {
			request, _, _ := unstructured.NestedString(u.Object, "spec", "request")
			if request != base64.StdEncoding.EncodeToString(csr.Spec.Request) {
				return errors.New("another request has its name")
			}
			conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
			if err != nil || len(conditions) > 0 {
				return err
			}
			return unstructured.SetNestedSlice(u.Object, []any{map[string]any{
				"type":    string(certificatesv1.CertificateApproved),
				"status":  string(corev1.ConditionTrue),
				"reason":  "KubeadmApprove",
				"message": "An administrator gives the node of this kubelet the name " + q.Node + ".",
			}}, "status", "conditions")
		}}
}

// readIssued returns the certificate of a request, or an error while there is none.
func readIssued(ctx context.Context, r state.Reader, ref state.Ref) ([]byte, error) {
	u, err := r.Object(ctx, ref)
	if err != nil {
		return nil, err
	}
	var csr certificatesv1.CertificateSigningRequest
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &csr); err != nil {
		return nil, world.Permanent(err)
	}
	if len(csr.Status.Certificate) > 0 {
		return csr.Status.Certificate, nil
	}
	for _, c := range csr.Status.Conditions {
		if c.Status != corev1.ConditionFalse && c.Type != certificatesv1.CertificateApproved {
			return nil, world.Permanent(fmt.Errorf("the request was not granted: %s: %s",
				untrusted.Line(string(c.Type)), untrusted.Line(c.Message)))
		}
	}
	if len(csr.Status.Conditions) > 0 {
		return nil, errors.New("it is approved, but not signed yet")
	}
	return nil, errors.New("it is not approved yet")
}
