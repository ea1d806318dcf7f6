package nodes

import (
	"fmt"
	"strings"
)

// Families says which kinds of addresses a cluster's nodes, Pods and Services have.
type Families string

// What a cluster can have. Of two families the first is the one by which nodes are known.
const (
	IPv4Only  Families = ""
	IPv6Only  Families = "ipv6"
	DualStack Families = "dual-stack" // IPv4, then IPv6
)

// family is one kind of address. Every cluster has a switch of its own that leads nowhere, so all use the same ones.
type family struct {
	node              string // address of a node, but for its number
	length            int    // of the prefix that all nodes share
	gateway, balancer string
	anywhere          string // the range of all addresses
	pods, services    string // ranges of Kubernetes
	forward, refuse   string // scripts: pass on packets; tell at once each sender whose packet there is no route for
}

var (
	ipv4 = family{
		node: "10.77.0.%d", length: 24, gateway: "10.77.0.1", balancer: "10.77.0.2", anywhere: "0.0.0.0/0",
		pods: PodSubnet, services: "10.96.0.0/12",
		forward: "echo 1 >/proc/sys/net/ipv4/ip_forward", refuse: "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit",
	}
	ipv6 = family{
		node: "fd00:77::%d", length: 64, gateway: "fd00:77::1", balancer: "fd00:77::2", anywhere: "::/0",
		pods: "fd00:244::/48", services: "fd00:96::/112",
		forward: "echo 1 | tee /proc/sys/net/ipv6/conf/*/forwarding >/dev/null", refuse: "echo 0 >/proc/sys/net/ipv6/icmp/ratelimit",
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

// familyOf is the family of an address or of a range of addresses.
func familyOf(address string) family {
	if strings.Contains(address, ":") {
		return ipv6
	}
	return ipv4
}

// familiesOf are those of addresses.
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

// joinEach lists what each family has, as kubeadm's fields want two ranges.
func (f Families) joinEach(field func(family) string) string {
	var list []string
	for _, one := range f.all() {
		list = append(list, field(one))
	}
	return strings.Join(list, ",")
}

// PodSubnets are where Pods get their addresses from: a range, or one of each family with a comma between them.
func (f Families) PodSubnets() string { return f.joinEach(func(one family) string { return one.pods }) }

// ServiceSubnets are the same for Services.
func (f Families) ServiceSubnets() string {
	return f.joinEach(func(one family) string { return one.services })
}

// hostAddresses are the addresses of the node with a number.
func (f Families) hostAddresses(host int) []string {
	var list []string
	for _, one := range f.all() {
		list = append(list, fmt.Sprintf(one.node, host))
	}
	return list
}

// addressCommands are commands that give a link the addresses. An IPv6 address can be used at once: nobody else has it.
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
