package pki

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// SANs are a certificate's subject alternative names without duplicates: sorted DNS names, and
// IP addresses in the given order.
type SANs struct {
	DNSNames []string
	IPs      []net.IP
}

// ParseSANs splits names into IP addresses and DNS names (RFC 1123 subdomains,
// a leading "*." allowed). All others are returned in ignored.
func ParseSANs(names []string) (sans SANs, ignored []string) {
	var dns []string
	var ips []net.IP
	for _, name := range names {
		ip, err := netip.ParseAddr(name)
		switch {
		case err == nil && ip.Zone() == "":
			ips = append(ips, ip.AsSlice())
		case isDNSName(name):
			dns = append(dns, name)
		default:
			ignored = append(ignored, name)
		}
	}
	return newSANs(dns, ips), ignored
}

func isDNSName(name string) bool {
	if strings.HasPrefix(name, "*.") {
		return len(validation.IsWildcardDNS1123Subdomain(name)) == 0
	}
	return len(validation.IsDNS1123Subdomain(name)) == 0
}

func newSANs(dns []string, ips []net.IP) SANs {
	s := SANs{DNSNames: slices.Compact(slices.Sorted(slices.Values(dns)))}
	for _, ip := range ips {
		if !slices.ContainsFunc(s.IPs, ip.Equal) {
			s.IPs = append(s.IPs, ip)
		}
	}
	return s
}

// NotCovered returns the names for which cert is not valid by the rules of
// host name verification. A wildcard in cert counts.
func (s SANs) NotCovered(cert *x509.Certificate) []string {
	var missing []string
	for _, name := range s.names() {
		if cert.VerifyHostname(name) != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// String lists all names, separated by commas.
func (s SANs) String() string { return strings.Join(s.names(), ", ") }

func (s SANs) names() []string {
	names := slices.Clone(s.DNSNames)
	for _, ip := range s.IPs {
		names = append(names, ip.String())
	}
	return names
}
