package node

import (
	"fmt"
	"net/netip"
	"strings"
)

// dnsAddressIndex is the index of the cluster DNS address in the service subnet.
const dnsAddressIndex = 10

// DNSAddress is the ClusterIP of the cluster DNS Service: address 10 of the first subnet in a
// comma-separated list of service subnets.
func DNSAddress(serviceSubnets string) (string, error) {
	first, _, _ := strings.Cut(serviceSubnets, ",")
	subnet, err := netip.ParsePrefix(first)
	if err != nil {
		return "", fmt.Errorf("service subnet %q is not a CIDR", first)
	}
	address := subnet.Masked().Addr()
	for range dnsAddressIndex {
		address = address.Next()
	}
	if !subnet.Contains(address) {
		return "", fmt.Errorf(
			"service subnet %s is too small: address %d is needed for cluster DNS", first,
			dnsAddressIndex)
	}
	return address.String(), nil
}
