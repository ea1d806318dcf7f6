package kubeletserving

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	certv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubeadm/internal/untrusted"
)

// The user name and group of a kubelet, which its serving certificate bears as well.
const (
	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// nodeOf returns the name of the Node whose kubelet made the request, or why it cannot be one of a
// kubelet.
func nodeOf(request certv1.CertificateSigningRequest) (name, reason string) {
	name, ok := strings.CutPrefix(request.Spec.Username, userPrefix)
	switch {
	case !ok || name == "":
		return "", "the user is not a kubelet"
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return "", "the user is not a kubelet: " + untrusted.Quote(name) + " cannot be the name of a Node"
	case !slices.Contains(request.Spec.Groups, nodesGroup):
		return "", "the user is not in group " + nodesGroup
	}
	return name, ""
}

// checkForm says what of a kubelet's request the signer "kubernetes.io/kubelet-serving" does not
// allow; empty if all of it is allowed. The rules of the signer are those of
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers.
func checkForm(request certv1.CertificateSigningRequest, asked *x509.CertificateRequest) string {
	if name := asked.Subject.CommonName; name != request.Spec.Username {
		return fmt.Sprintf("its common name %s is not the user", untrusted.Quote(name))
	}
	if groups := asked.Subject.Organization; !slices.Equal(groups, []string{nodesGroup}) {
		return fmt.Sprintf("its organization is %s instead of %q",
			untrusted.Quote(strings.Join(groups, ", ")), nodesGroup)
	}
	if reason := compareUsages(request.Spec.Usages); reason != "" {
		return reason
	}
	switch count := len(asked.DNSNames) + len(asked.IPAddresses); {
	case len(asked.EmailAddresses) > 0:
		return "it asks for an email address"
	case len(asked.URIs) > 0:
		return "it asks for a URI"
	case count == 0:
		return "it asks for neither a name nor an address"
	case count > maxNames:
		return fmt.Sprintf("it asks for %d names and addresses, but a kubelet has at most %d", count, maxNames)
	}
	return ""
}

// maxNames is far more than a kubelet has, and few enough to be shown.
const maxNames = 32

func compareUsages(usages []certv1.KeyUsage) string {
	allowed := []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageKeyEncipherment,
		certv1.UsageServerAuth}
	for _, usage := range usages {
		if !slices.Contains(allowed, usage) {
			return fmt.Sprintf("usage %s does not belong in a serving certificate",
				untrusted.Quote(string(usage)))
		}
	}
	if !slices.Contains(usages, certv1.UsageServerAuth) {
		return fmt.Sprintf("it does not have usage %q", certv1.UsageServerAuth)
	}
	return ""
}
