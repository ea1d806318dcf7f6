package kubeletserving

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	certv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubeadm/internal/node"
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

// checkNames says which name or address of a request the kubelet of that Node must not have; empty if it may have
// all of them.
func (c *cluster) checkNames(asked *x509.CertificateRequest, name string) string {
	self := c.nodes[name]
	for _, dns := range asked.DNSNames {
		if reason := c.checkDNSName(dns, name); reason != "" {
			return "it asks for " + untrusted.Quote(dns) + ", " + reason
		}
	}
	for _, ip := range asked.IPAddresses {
		if reason := c.checkAddress(ip, name); reason != "" {
			return "it asks for " + untrusted.Quote(ip.String()) + ", " + reason
		}
	}
	// The kubelet asks for what its Node has. A cloud controller manager may not have written it yet.
	for _, one := range listNames(asked) {
		if !slices.ContainsFunc(self.addresses, func(a string) bool { return normalize(a) == normalize(one) }) {
			return fmt.Sprintf("it asks for %s, but the addresses of the Node are %s", untrusted.Quote(one),
				untrusted.Quote(strings.Join(self.addresses, ", ")))
		}
	}
	return ""
}

// listNames lists the DNS names and the addresses of a request.
func listNames(asked *x509.CertificateRequest) []string {
	names := slices.Clone(asked.DNSNames)
	for _, ip := range asked.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// checkDNSName says why the kubelet of that Node must not have a DNS name. Whoever has a bootstrap token chooses the
// name of a Node, so that is checked as well.
func (c *cluster) checkDNSName(dns, name string) string {
	_, notAddress := netip.ParseAddr(dns)
	switch {
	case strings.Contains(dns, "*"):
		return "a wildcard"
	case len(validation.IsDNS1123Subdomain(dns)) > 0 || notAddress == nil:
		return "which is not a DNS name in lower case"
	case dns == "localhost" || strings.HasSuffix(dns, ".localhost"):
		return "the name that every machine has for itself"
	case dns == "kubernetes" || dns == "kubernetes.default" || dns == "svc" || strings.HasSuffix(dns, ".svc"):
		return "a name of a Service"
	case c.domain != "" && (dns == c.domain || strings.HasSuffix(dns, "."+c.domain)):
		return "a name in the domain of the Services, " + c.domain
	}
	if what := c.controlPlane[dns]; what != "" && !c.nodes[name].isControlPlane {
		return what + notLabelled(name)
	}
	if dns == name && c.nodes[name].isControlPlane {
		return ""
	}
	// What the status of another worker claims does not keep a node from its own name.
	if what := c.otherOwner(dns, name); what != "" && (dns != name || c.hasControlPlaneOwner(dns)) {
		return "the name of " + what
	}
	if reason := c.checkWildcards(dns); reason != "" {
		switch {
		case dns != name:
			return reason
		case !c.HasDomainOf(dns):
			return reason + "; if only nodes have names in that domain, set --allowed-dns-suffix to it"
		}
	}
	if dns != name && !c.HasDomainOf(dns) {
		return fmt.Sprintf("which is not the name of the Node, %s; if only nodes have names in that domain, "+
			"set --allowed-dns-suffix to it", name)
	}
	return ""
}

// checkWildcards says which wildcard among the names of the API server matches a name; empty if none does.
func (c *cluster) checkWildcards(dns string) string {
	for san, what := range c.controlPlane {
		if domain, isWildcard := strings.CutPrefix(san, "*"); isWildcard && strings.HasSuffix(dns, domain) {
			return "which is matched by " + san + ", " + what
		}
	}
	return ""
}

// checkAddress says why the kubelet of that Node must not have an address.
func (c *cluster) checkAddress(ip net.IP, name string) string {
	address, ok := netip.AddrFromSlice(ip)
	address = address.Unmap()
	holds := func(p netip.Prefix) bool { return p.Contains(address) }
	switch {
	case !ok || !address.IsGlobalUnicast():
		return "which is not the address of a single machine"
	case slices.ContainsFunc(c.services, holds):
		return "an address of the Services"
	case slices.ContainsFunc(c.pods, holds):
		return "an address of the Pods"
	}
	what, isControlPlane := c.controlPlane[address.String()], c.nodes[name].isControlPlane
	if what == apiServerAddress && isControlPlane {
		return "" // an API server has published it, and a worker that claims it is refused
	}
	if other := c.otherOwner(address.String(), name); other != "" {
		return "an address of " + other
	}
	if what != "" && !isControlPlane {
		return what + notLabelled(name)
	}
	allowed, source := c.Networks, "--allowed-cidr"
	if allowed == nil {
		allowed, source = c.local, "the networks of this machine's API server"
	}
	switch {
	case slices.ContainsFunc(allowed, holds):
		return ""
	case len(allowed) == 0:
		return "and this machine does not run an API server whose networks would show which addresses " +
			"nodes have; set --allowed-cidr to the networks of the nodes"
	}
	return fmt.Sprintf("which is in none of %s (%s); if nodes have addresses there, set --allowed-cidr to "+
		"all networks of the nodes", joinNetworks(allowed), source)
}

// notLabelled says why a node of the control plane may be refused.
func notLabelled(name string) string {
	return fmt.Sprintf(", and Node %s is not labeled as a control plane node with %s", name, node.ControlPlaneLabel)
}

func joinNetworks(all []netip.Prefix) string {
	var list []string
	for _, network := range all {
		list = append(list, network.String())
	}
	return strings.Join(list, ", ")
}

// findService finds a Service that clients reach by a DNS name of one or two labels: of those of one
// label, only the namespaces in which the cluster's own Services are.
func findService(ctx context.Context, r state.Reader, dns string, as state.Identity) (string, error) {
	service, namespace, isQualified := strings.Cut(dns, ".")
	namespaces := []string{namespace}
	if !isQualified {
		namespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem}
	}
	for _, namespace := range namespaces {
		if len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Label(service)) > 0 {
			continue // no Service has such a name
		}
		ref := state.Ref{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Namespace: namespace,
			Name: service, As: as}
		_, err := r.Object(ctx, ref)
		if err == nil {
			return ref.String(), nil
		}
		if !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	return "", nil
}

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
