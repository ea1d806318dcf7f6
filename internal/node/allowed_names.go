package node

import (
	"net/netip"
	"strings"
)

// AllowedNames is what the operator says of names and addresses of nodes, for certificates that their
// kubelets serve. A Node's status is no evidence: the credential of the kubelet writes it.
type AllowedNames struct {
	// Networks have the addresses of nodes; nil for the networks of this machine's API server.
	Networks []netip.Prefix
	// DNSSuffixes are domains in which a node may have any free name, beside its own.
	DNSSuffixes []string
}

// HasDomainOf reports whether the name is below one of the domains.
func (a AllowedNames) HasDomainOf(name string) bool {
	for _, suffix := range a.DNSSuffixes {
		if strings.HasSuffix(name, "."+suffix) {
			return true
		}
	}
	return false
}
