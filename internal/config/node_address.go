package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// fillNodeAddress sets the advertise address, of a control plane node, and the kubelet's argument node-ip
// to the addresses that --node-address-from selects. endpoint is nil for a worker.
func fillNodeAddress(from string, facts Facts, endpoint *v1beta4.APIEndpoint,
	r *v1beta4.NodeRegistrationOptions) error {
	if from == "" {
		return nil
	}
	chosen, err := selectAddresses(from, facts)
	if err != nil {
		return fmt.Errorf("--%s %q: %w", flag.NodeAddressFrom, from, err)
	}
	nodeIP := strings.Join(chosen, ",")
	set, isSet := node.LastArg(convertArgs(r.KubeletExtraArgs), "node-ip")
	switch {
	case isSet && set != nodeIP:
		return fmt.Errorf("--%s %q selects %s, but kubeletExtraArgs sets node-ip to %q: set only one of them",
			flag.NodeAddressFrom, from, nodeIP, set)
	case !isSet:
		r.KubeletExtraArgs = append(r.KubeletExtraArgs, v1beta4.Arg{Name: "node-ip", Value: nodeIP})
	}
	if endpoint == nil {
		return nil
	}
	if ip, err := netip.ParseAddr(endpoint.AdvertiseAddress); endpoint.AdvertiseAddress != "" &&
		endpoint.AdvertiseAddress != chosen[0] && (err != nil || !ip.IsUnspecified()) {
		return fmt.Errorf("--%s %q selects %s, but the advertise address is set to %q: set only one of them",
			flag.NodeAddressFrom, from, chosen[0], endpoint.AdvertiseAddress)
	}
	endpoint.AdvertiseAddress = chosen[0]
	return nil
}

// SelectNodeAddress returns the address of this machine that a selector matches, as of --node-address-from; without
// a selector, that of the interface with the default route.
func SelectNodeAddress(selector string, facts Facts) (string, error) {
	facts.NodeIP = "" // which is the previous address
	if selector == "" {
		for _, a := range facts.Addresses {
			if a.DefaultRoute && selector != "" && selector != a.Interface {
				return "", problem.New(errors.New("several network interfaces have a default route"), nameAddress)
			}
			if a.DefaultRoute {
				selector = a.Interface
			}
		}
	}
	if selector == "" {
		return "", problem.New(errors.New("no network interface has a default route"), nameAddress)
	}
	if strings.Contains(selector, ",") {
		return "", problem.New(fmt.Errorf("%s names several addresses", untrusted.Quote(selector)),
			"move one address at a time")
	}
	chosen, err := selectAddresses(selector, facts)
	if err != nil {
		return "", problem.New(fmt.Errorf("the new address of this node: %w", err), nameAddress)
	}
	return chosen[0], nil
}

const nameAddress = "name the new address, which this machine must have already: kubeadm address change ADDRESS"

// selectAddresses returns the address of this machine that a selector matches: the name of a network
// interface, a CIDR, or an address. An IPv4 address is preferred to an IPv6 one. Two selectors, with a comma
// between them, match an address of each IP family, as for dual-stack.
//
// Several matches are an error, unless the kubelet of this machine has one of them already: the machine is
// a node, or an earlier run was interrupted, and Pod networks and virtual addresses came after it.
func selectAddresses(from string, facts Facts) (chosen []string, err error) {
	addresses := slices.DeleteFunc(slices.Clone(facts.Addresses), func(a state.Address) bool { return a.Loopback })
	selectors := strings.Split(from, ",")
	if len(selectors) > 2 {
		return nil, errors.New("it must be one interface or CIDR, or two for dual-stack")
	}
	var first netip.Addr
	for _, selector := range selectors {
		selector = strings.TrimSpace(selector)
		found, err := matchAddresses(selector, addresses)
		if err != nil {
			return nil, err
		}
		is4 := slices.ContainsFunc(found, netip.Addr.Is4) // which is preferred
		if first.IsValid() {
			is4 = !first.Is4()
		}
		found = slices.DeleteFunc(found, func(ip netip.Addr) bool { return ip.Is4() != is4 })
		if len(found) == 0 {
			return nil, fmt.Errorf("%q matches no address of another IP family than %s; this machine has %s",
				untrusted.Line(selector), first, describeAddresses(addresses))
		}
		if i := slices.IndexFunc(found, func(ip netip.Addr) bool {
			return slices.Contains(strings.Split(facts.NodeIP, ","), ip.String())
		}); i >= 0 {
			found = found[i : i+1]
		}
		if len(found) > 1 {
			return nil, fmt.Errorf("%q matches several addresses: %s; set one of them", untrusted.Line(selector),
				joinAddresses(found))
		}
		first = found[0]
		chosen = append(chosen, first.String())
	}
	return chosen, nil
}

// matchAddresses lists the addresses that one selector matches, at least one.
func matchAddresses(selector string, addresses []state.Address) (found []netip.Addr, err error) {
	prefix, prefixErr := netip.ParsePrefix(selector)
	single, singleErr := netip.ParseAddr(selector)
	isName := prefixErr != nil && singleErr != nil
	if isName && !slices.ContainsFunc(addresses, func(a state.Address) bool { return a.Interface == selector }) {
		return nil, fmt.Errorf("%q is neither a CIDR nor the name of a network interface that is up and has an "+
			"address; this machine has %s", untrusted.Line(selector), describeAddresses(addresses))
	}
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || slices.Contains(found, ip) {
			continue
		}
		if isName && a.Interface == selector || prefixErr == nil && prefix.Contains(ip) ||
			singleErr == nil && ip == single.Unmap() {
			found = append(found, ip)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%q matches no address; this machine has %s", untrusted.Line(selector),
			describeAddresses(addresses))
	}
	return found, nil
}

func joinAddresses(all []netip.Addr) string {
	var texts []string
	for _, ip := range all {
		texts = append(texts, ip.String())
	}
	return strings.Join(texts, ", ")
}

// describeAddresses lists the addresses of this machine with their interfaces.
func describeAddresses(addresses []state.Address) string {
	var texts []string
	for _, a := range addresses {
		texts = append(texts, fmt.Sprintf("%s (%s)", a.IP, untrusted.Line(a.Interface)))
	}
	if len(texts) == 0 {
		return "no address that others can reach"
	}
	return strings.Join(texts, ", ")
}
