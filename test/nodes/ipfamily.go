package nodes

import (
	"fmt"
	"strings"
)

// Families are the IP families of a cluster's nodes, Pods and Services.
type Families string

// The supported combinations. The first family of dual-stack is that of Node.Address.
const (
	IPv4Only  Families = ""
	IPv6Only  Families = "ipv6"
	DualStack Families = "dual-stack" // IPv4, then IPv6
)

// family holds the addresses of one IP family. Every cluster has an isolated switch, so all use
// the same addresses.
type family struct {
	node              string // format of a node's address, with its host number
	length            int    // of the network prefix
	gateway, balancer string
	anywhere          string // the CIDR of all addresses
	pods, services    string // CIDRs of Kubernetes
	forward, refuse   string // scripts: enable forwarding; send ICMP errors without rate limit
}

var (
	ipv4 = family{
		node: "10.77.0.%d", length: 24, gateway: "10.77.0.1", balancer: "10.77.0.2",
		anywhere: "0.0.0.0/0",
		pods:     PodSubnet, services: "10.96.0.0/12",
		forward: "echo 1 >/proc/sys/net/ipv4/ip_forward",
		refuse:  "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit",
	}
	ipv6 = family{
		node: "fd00:77::%d", length: 64, gateway: "fd00:77::1", balancer: "fd00:77::2",
		anywhere: "::/0",
		pods:     "fd00:244::/48", services: "fd00:96::/112",
		forward: "echo 1 | tee /proc/sys/net/ipv6/conf/*/forwarding >/dev/null",
		refuse:  "echo 0 >/proc/sys/net/ipv6/icmp/ratelimit",
	}
)

func (f Families) all() []family {
	switch f {
	case DualStack:
		return []family{ipv4, ipv6}
	case IPv6Only:
		return []family{ipv6}
	default:
		return []family{ipv4}
	}
}

// familyOf returns the family of an address or a CIDR.
func familyOf(address string) family {
	if strings.Contains(address, ":") {
		return ipv6
	}
	return ipv4
}

// familiesOf returns the families of addresses.
func familiesOf(addresses []string) Families {
	kinds := make(map[family]bool)
	for _, address := range addresses {
		kinds[familyOf(address)] = true
	}
	switch {
	case !kinds[ipv6]:
		return IPv4Only
	case !kinds[ipv4]:
		return IPv6Only
	default:
		return DualStack
	}
}

// joinEach joins a field of each family with commas, as kubeadm expects two CIDRs.
func (f Families) joinEach(field func(family) string) string {
	var list []string
	for _, one := range f.all() {
		list = append(list, field(one))
	}
	return strings.Join(list, ",")
}

// PodSubnets is the Pod CIDR, or one of each family separated by a comma.
func (f Families) PodSubnets() string {
	return f.joinEach(func(one family) string { return one.pods })
}

// ServiceSubnets is the Service CIDR, or one of each family separated by a comma.
func (f Families) ServiceSubnets() string {
	return f.joinEach(func(one family) string { return one.services })
}

// hostAddresses returns the addresses of the node with a host number.
func (f Families) hostAddresses(host int) []string {
	var list []string
	for _, one := range f.all() {
		list = append(list, fmt.Sprintf(one.node, host))
	}
	return list
}

// addressCommands are commands of ip(8) that assign addresses to a link, IPv6 ones without
// duplicate address detection.
func addressCommands(link string, addresses ...string) []string {
	var lines []string
	for _, address := range addresses {
		line := fmt.Sprintf("address replace %s/%d dev %s", address, familyOf(address).length, link)
		if strings.Contains(address, ":") {
			line += " nodad"
		}
		lines = append(lines, line)
	}
	return lines
}
