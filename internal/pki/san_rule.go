package pki

import (
	"fmt"
	"net/netip"
	"strings"
)

// Site holds the names and addresses of this node and its cluster that certificates contain.
type Site struct {
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
	service, err := apiServerServiceIP(s.ServiceSubnet)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	names := []string{
		s.NodeName, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + s.DNSDomain, service.String(), s.AdvertiseAddress,
	}
	if s.ControlPlaneHost != "" {
		names = append(names, s.ControlPlaneHost)
	}
	return append(names, s.APIServerSANs...), nil
}

func (s Site) etcdNames(extra []string) ([]string, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return append([]string{s.NodeName, "localhost", s.AdvertiseAddress, "127.0.0.1", "::1"}, extra...), nil
}

// check checks the fields that every rule uses.
func (s Site) check() error {
	if !isDNSName(s.NodeName) {
		return fmt.Errorf("node name %q cannot be used in a certificate: it must be a lower-case DNS name", s.NodeName)
	}
	if _, err := netip.ParseAddr(s.AdvertiseAddress); err != nil {
		return fmt.Errorf("advertise address %q cannot be used in a certificate: it must be an IP address", s.AdvertiseAddress)
	}
	return nil
}

// apiServerServiceIP returns the cluster IP of the Service "kubernetes": the first address of the
// first subnet.
func apiServerServiceIP(subnets string) (netip.Addr, error) {
	text, _, _ := strings.Cut(subnets, ",")
	subnet, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("service subnet %q is not a CIDR such as 10.96.0.0/12", text)
	}
	first := subnet.Masked().Addr().Next()
	if !subnet.Contains(first) {
		return netip.Addr{}, fmt.Errorf("service subnet %s is too small: it has no address for the kubernetes Service", subnet)
	}
	return first, nil
}
