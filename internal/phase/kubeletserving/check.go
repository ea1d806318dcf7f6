package kubeletserving

import (
	"cmp"
	"context"

	certv1 "k8s.io/api/certificates/v1"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// findMismatch says why the request must not be approved; empty if it may.
func (c *cluster) findMismatch(ctx context.Context, r state.Reader, request certv1.CertificateSigningRequest,
	as state.Identity) (string, error) {
	name, reason := nodeOf(request)
	if reason != "" {
		return reason, nil
	}
	if _, exists := c.nodes[name]; !exists {
		return "there is no Node " + untrusted.Quote(name), nil
	}
	asked, err := pki.ParseRequest(request.Spec.Request)
	if err != nil {
		return untrusted.Line(err.Error()), nil
	}
	if reason = cmp.Or(checkForm(request, asked), c.checkNames(asked, name)); reason != "" {
		return reason, nil
	}
	for _, dns := range asked.DNSNames {
		service, err := findService(ctx, r, dns, as)
		if isAnswer(err) {
			return untrusted.Line(err.Error()), nil
		}
		if err != nil {
			return "", err
		}
		if service != "" {
			return "it asks for " + untrusted.Quote(dns) + ", a name of " + service, nil
		}
	}
	return "", nil
}
