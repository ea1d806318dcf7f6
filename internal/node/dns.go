package node

import (
	"fmt"
	"net/netip"
	"strings"
)

// dnsPlace is the place of the cluster's DNS server in the service subnet.
const dnsPlace = 10

// DNSAddress is the address of the cluster's DNS server: number 10 of the first of
// the service subnets, which are parted by a comma.
func DNSAddress(serviceSubnets string) (string, error) {
	first, _, _ := strings.Cut(serviceSubnets, ",")
	subnet, err := netip.ParsePrefix(first)
	if err != nil {
		return "", fmt.Errorf("service subnet %q is not a CIDR", first)
	}
	address := subnet.Masked().Addr()
	for range dnsPlace {
		address = address.Next()
	}
	if !subnet.Contains(address) {
		return "", fmt.Errorf("service subnet %s has no address number %d for the cluster's DNS server", first, dnsPlace)
	}
	return address.String(), nil
}
