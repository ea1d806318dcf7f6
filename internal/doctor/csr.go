package doctor

import (
	"context"
	"fmt"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// requestAge is how long a request may wait until it is reported: most are approved at once.
const requestAge = 10 * time.Second

func checkRequests(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	all, err := state.ListOf[certv1.CertificateSigningRequest](ctx, r, state.Query{
		GVK: certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), As: c.as,
		Fields: []string{"spec.signerName", "spec.username", "status"}, Keep: isUndecided})
	if c.skipOnError(rep, err) {
		return
	}
	for _, request := range all {
		if r.Now().Sub(request.CreationTimestamp.Time) < requestAge {
			continue
		}
		f := preflight.Finding{Severity: preflight.Warning,
			Text: fmt.Sprintf("certificate signing request %s is waiting for approval",
				untrusted.Line(request.Name)),
			Evidence: fmt.Sprintf("signer %s, user %s, since %s", untrusted.Line(request.Spec.SignerName),
				untrusted.Line(request.Spec.Username), request.CreationTimestamp.UTC().Format(time.RFC3339)),
			Remedy: "check who created it, then approve or deny it", Command: untrusted.Command("kubectl certificate approve", request.Name)}
		if request.Spec.SignerName == certv1.KubeletServingSignerName {
			f.Remedy, f.Command = "approve the legitimate requests", "kubeadm certs approve-kubelet-serving"
		}
		rep.Add(f)
	}
}

// isUndecided reports whether a certificate signing request is neither approved nor denied, and has no certificate.
func isUndecided(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	certificate, _, _ := unstructured.NestedString(u.Object, "status", "certificate")
	return len(conditions) == 0 && certificate == ""
}
