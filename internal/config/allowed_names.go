package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// AllowedNames parses the values of --allowed-cidr and --allowed-dns-suffix.
func AllowedNames(cidrs, suffixes []string) (node.AllowedNames, error) {
	var a node.AllowedNames
	for _, text := range cidrs {
		network, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return a, problem.New(fmt.Errorf("--allowed-cidr: %s is not a network", untrusted.Quote(text)),
				"write an address and a prefix length, such as 192.0.2.0/24 or 2001:db8::/64")
		case network.Addr().Is4In6():
			return a, problem.New(fmt.Errorf("--allowed-cidr: %s is an IPv4 network in IPv6 form", text),
				"write it in IPv4 form")
		case network.Bits() == 0:
			return a, problem.New(fmt.Errorf("--allowed-cidr: %s contains every address", text),
				"set it to the networks of the nodes")
		case network != network.Masked():
			return a, problem.New(fmt.Errorf("--allowed-cidr: %s is a single address in %s", text,
				network.Masked()), fmt.Sprintf("set --allowed-cidr to the network, %s, or to the address, %s/%d",
				network.Masked(), network.Addr(), network.Addr().BitLen()))
		}
		a.Networks = append(a.Networks, network)
	}
	for _, text := range suffixes {
		suffix := strings.TrimPrefix(text, ".")
		if len(validation.IsDNS1123Subdomain(suffix)) > 0 {
			return a, problem.New(fmt.Errorf("--allowed-dns-suffix: %s is not a domain",
				untrusted.Quote(text)), "write a domain in lower case without a wildcard, such as nodes.example.com")
		}
		if _, err := netip.ParseAddr(suffix); err == nil {
			return a, problem.New(errors.New("--allowed-dns-suffix: "+suffix+" is an address"),
				"set --allowed-cidr to the networks of the nodes")
		}
		a.DNSSuffixes = append(a.DNSSuffixes, suffix)
	}
	return a, nil
}
