package pki

import (
	"crypto/x509"
	"fmt"
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

// MissingFrom returns the names for which cert is not valid by the rules of
// host name verification. A wildcard in cert counts.
func (s SANs) MissingFrom(cert *x509.Certificate) []string {
	var missing []string
	for _, name := range s.names() {
		if cert.VerifyHostname(name) != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// SANsOf are the names and addresses of a certificate.
func SANsOf(cert *x509.Certificate) SANs { return newSANs(cert.DNSNames, cert.IPAddresses) }

// Plus has the names of both.
func (s SANs) Plus(more SANs) SANs {
	return newSANs(slices.Concat(s.DNSNames, more.DNSNames), slices.Concat(s.IPs, more.IPs))
}

// Without has the names that the others do not have.
func (s SANs) Without(others SANs) SANs {
	return newSANs(
		slices.DeleteFunc(slices.Clone(s.DNSNames), func(name string) bool {
			return slices.Contains(others.DNSNames, name)
		}),
		slices.DeleteFunc(slices.Clone(s.IPs), func(ip net.IP) bool {
			return slices.ContainsFunc(others.IPs, ip.Equal)
		}))
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

// NodeNames holds the names and addresses of this node and its cluster that certificates contain.
type NodeNames struct {
	NodeName         string
	AdvertiseAddress string // IP address of this node's API server and etcd member
	ServiceSubnet    string // one CIDR, or two separated by a comma; only the first is used
	ControlPlaneHost string // host part of the control plane endpoint, empty without one
	DNSDomain        string
	APIServerSANs    []string // extra names, each an IP address or a DNS name
	EtcdServerSANs   []string
	EtcdPeerSANs     []string
}

// SANRule says which names are the SANs of a certificate.
type SANRule int

// The rules for the certificates of a control plane.
const (
	NoSANs SANRule = iota
	APIServerSANs
	EtcdServerSANs
	EtcdPeerSANs
)

// SANs applies the rule. Extra names that are neither IP address nor DNS name
// are returned in ignored instead, for a warning.
func (s NodeNames) SANs(rule SANRule) (sans SANs, ignored []string, err error) {
	if rule == NoSANs {
		return SANs{}, nil, nil
	}
	var service netip.Addr
	if rule == APIServerSANs {
		if service, err = apiServerServiceIP(s.ServiceSubnet); err != nil {
			return SANs{}, nil, err
		}
	}
	if !isDNSName(s.NodeName) {
		return SANs{}, nil, fmt.Errorf("node name %q cannot be used in a certificate: it must be a lower-case DNS name", s.NodeName)
	}
	if _, err := netip.ParseAddr(s.AdvertiseAddress); err != nil {
		return SANs{}, nil, fmt.Errorf("advertise address %q cannot be used in a certificate: it must be an IP address", s.AdvertiseAddress)
	}
	var names []string
	etcd := []string{s.NodeName, "localhost", s.AdvertiseAddress, "127.0.0.1", "::1"}
	switch rule {
	case APIServerSANs:
		names = append(names, s.NodeName, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc."+s.DNSDomain, service.String(), s.AdvertiseAddress)
		if s.ControlPlaneHost != "" {
			names = append(names, s.ControlPlaneHost)
		}
		names = append(names, s.APIServerSANs...)
	case EtcdServerSANs:
		names = append(etcd, s.EtcdServerSANs...)
	case EtcdPeerSANs:
		names = append(etcd, s.EtcdPeerSANs...)
	}
	sans, ignored = ParseSANs(names)
	return sans, ignored, nil
}

// apiServerServiceIP returns the cluster IP of the Service "kubernetes": the first address of the
// first subnet.
func apiServerServiceIP(subnets string) (netip.Addr, error) {
	text, _, _ := strings.Cut(subnets, ",")
	subnet, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return netip.Addr{},
			fmt.Errorf("service subnet %q is not a CIDR such as 10.96.0.0/12", text)
	}
	first := subnet.Masked().Addr().Next()
	if !subnet.Contains(first) {
		return netip.Addr{},
			fmt.Errorf("service subnet %s is too small to contain an address for the kubernetes Service", subnet)
	}
	return first, nil
}
