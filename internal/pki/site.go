package pki

import (
	"fmt"
	"net/netip"
	"strings"
)

// Site is all that certificates say about this node and its cluster.
type Site struct {
	NodeName         string
	AdvertiseAddress string // IP address of this node's API server and etcd member
	ServiceSubnet    string // one CIDR, or two separated by a comma, of which the first counts
	ControlPlaneHost string // host part of the control plane endpoint, empty without one
	DNSDomain        string
	APIServerSANs    []string // extra names, each an IP address or a DNS name
	EtcdServerSANs   []string
	EtcdPeerSANs     []string
}

// SANRule says which names of a Site a certificate carries.
type SANRule int

// The rules.
const (
	NoSANs SANRule = iota
	APIServerSANs
	EtcdServerSANs
	EtcdPeerSANs
)

// SANs applies the rule. Extra names that are neither IP address nor DNS name
// are left out and returned in ignored, for a warning.
func (s Site) SANs(rule SANRule) (sans SANs, ignored []string, err error) {
	var names []string
	switch rule {
	case APIServerSANs:
		names, err = s.apiServerNames()
	case EtcdServerSANs:
		names, err = s.etcdNames(s.EtcdServerSANs)
	case EtcdPeerSANs:
		names, err = s.etcdNames(s.EtcdPeerSANs)
	}
	if err != nil {
		return SANs{}, nil, err
	}
	sans, ignored = ParseSANs(names)
	return sans, ignored, nil
}

func (s Site) apiServerNames() ([]string, error) {
	service, err := firstAddress(s.ServiceSubnet)
	if err != nil {
		return nil, err
	}
	own, err := s.ownNames()
	if err != nil {
		return nil, err
	}
	names := append(own,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc."+s.DNSDomain,
		service.String(), s.AdvertiseAddress)
	if s.ControlPlaneHost != "" {
		names = append(names, s.ControlPlaneHost)
	}
	return append(names, s.APIServerSANs...), nil
}

func (s Site) etcdNames(extra []string) ([]string, error) {
	own, err := s.ownNames()
	if err != nil {
		return nil, err
	}
	names := append(own, "localhost", s.AdvertiseAddress, "127.0.0.1", "::1")
	return append(names, extra...), nil
}

// ownNames is the node's name, after a look at what every rule needs.
func (s Site) ownNames() ([]string, error) {
	if !isDNSName(s.NodeName) {
		return nil, fmt.Errorf("node name %q cannot stand in a certificate: it must be a lower-case DNS name", s.NodeName)
	}
	if _, err := netip.ParseAddr(s.AdvertiseAddress); err != nil {
		return nil, fmt.Errorf("advertise address %q cannot stand in a certificate: it must be an IP address", s.AdvertiseAddress)
	}
	return []string{s.NodeName}, nil
}

// firstAddress is the address of the Service "kubernetes": number 1 of the first subnet.
func firstAddress(subnets string) (netip.Addr, error) {
	text, _, _ := strings.Cut(subnets, ",")
	subnet, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("service subnet %q is not an address range such as 10.96.0.0/12", text)
	}
	first := subnet.Masked().Addr().Next()
	if !subnet.Contains(first) {
		return netip.Addr{}, fmt.Errorf("service subnet %s is too small: it holds no address number 1", subnet)
	}
	return first, nil
}
