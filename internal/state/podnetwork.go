package state

import "context"

// PodNetwork is what kube-proxy and CNI plugins set up in the kernel, beside what others set up
// there. The errors of a program that is not installed satisfy errors.Is(err, fs.ErrNotExist).
type PodNetwork interface {
	// Links lists the network interfaces, which needs the program ip.
	Links(ctx context.Context) ([]Link, error)
	// PacketRules lists packet filter rules by the program that manages them, one of
	// PacketFilters().
	PacketRules(ctx context.Context, program string) (string, error)
	// VirtualServers lists the virtual servers of IPVS. It needs no program.
	VirtualServers(ctx context.Context) ([]VirtualServer, error)
}

// Link is a network interface.
type Link struct {
	Name      string
	Namespace string   // named network namespace of a veth's peer; empty if there is none
	Addresses []string // IP addresses
	MTU       int      // largest packet in bytes; 0 if it is not known
}

// VirtualServer is a virtual server of IPVS.
type VirtualServer struct {
	Protocol string // "TCP", "UDP" or "SCTP"
	IP       string
	Port     uint16
}

// PacketFilters are the programs that manage packet filter rules. Of the iptables family each has
// the rules of one IP family in one of the kernel's two implementations, and lists them as
// iptables-save does. "nft" lists the names of all tables as "table FAMILY NAME", "ipset" the names
// of all sets. Sets come last, as rules refer to them.
func PacketFilters() []string {
	return []string{"iptables-nft", "iptables-legacy", "ip6tables-nft", "ip6tables-legacy", "nft",
		"ipset"}
}
