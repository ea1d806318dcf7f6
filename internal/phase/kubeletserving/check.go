package kubeletserving

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/pki"
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
	case !slices.Contains(request.Spec.Groups, nodesGroup):
		return "", "the user is not in group " + nodesGroup
	}
	return name, ""
}

// compare says what of a kubelet's request neither the signer "kubernetes.io/kubelet-serving" nor
// the Node allows; empty if all of it is allowed. The rules of the signer are those of
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers.
func compare(request certv1.CertificateSigningRequest, node *corev1.Node) string {
	asked, err := pki.ParseRequest(request.Spec.Request)
	if err != nil {
		return err.Error()
	}
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
	return compareNames(asked, node)
}

func compareUsages(usages []certv1.KeyUsage) string {
	allowed := []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageKeyEncipherment,
		certv1.UsageServerAuth}
	for _, usage := range usages {
		if !slices.Contains(allowed, usage) {
			return fmt.Sprintf("usage %s is not one of a serving certificate",
				untrusted.Quote(string(usage)))
		}
	}
	if !slices.Contains(usages, certv1.UsageServerAuth) {
		return fmt.Sprintf("it is without usage %q", certv1.UsageServerAuth)
	}
	return ""
}

// compareNames compares the subject alternative names with the addresses in the Node's status.
func compareNames(asked *x509.CertificateRequest, node *corev1.Node) string {
	switch {
	case len(asked.EmailAddresses) > 0:
		return "it asks for an email address"
	case len(asked.URIs) > 0:
		return "it asks for a URI"
	case len(asked.DNSNames)+len(asked.IPAddresses) == 0:
		return "it asks for no name or address"
	}
	var names, addresses, all []string
	for _, a := range node.Status.Addresses {
		all = append(all, a.Address)
		switch a.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			names = append(names, a.Address)
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			addresses = append(addresses, a.Address)
		}
	}
	var foreign []string
	for _, name := range asked.DNSNames {
		if !slices.Contains(names, name) {
			foreign = append(foreign, name)
		}
	}
	for _, ip := range asked.IPAddresses {
		if !slices.Contains(addresses, ip.String()) {
			foreign = append(foreign, ip.String())
		}
	}
	if len(foreign) == 0 {
		return ""
	}
	return fmt.Sprintf("it asks for %s, but the addresses of the Node are %s",
		untrusted.Quote(strings.Join(foreign, ", ")), untrusted.Quote(strings.Join(all, ", ")))
}
