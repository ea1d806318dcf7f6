package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

// Limits of subnets, in bits of an address.
const (
	serviceBitsMin  = 4  // cluster DNS has address 10
	podBitsMin      = 4  // 14 usable addresses
	serviceBitsMax  = 20 // the API server allocates from a bitmap
	nodeCIDRBitsMax = 16 // the controller manager allocates node CIDRs from a bitmap
)

// Default prefix lengths of a node's Pod CIDR.
const (
	nodeMaskIPv4 = 24
	nodeMaskIPv6 = 64
)

func checkNetworking(c *v1beta4.ClusterConfiguration) field.ErrorList {
	at := field.NewPath("networking")
	errs := checkSubdomain(at.Child("dnsDomain"), c.Networking.DNSDomain, "")
	services, faults := checkSubnets(at.Child("serviceSubnet"), c.Networking.ServiceSubnet,
		serviceBitsMin)
	errs = append(errs, faults...)
	for _, s := range services {
		if s.Addr().BitLen()-s.Bits() > serviceBitsMax {
			errs = append(errs, invalid(at.Child("serviceSubnet"), s.String(),
				fmt.Sprintf("is too large: the prefix length must be at least /%d",
					s.Addr().BitLen()-serviceBitsMax))...)
		}
	}
	if c.Networking.PodSubnet == "" {
		return errs
	}
	pods, faults := checkSubnets(at.Child("podSubnet"), c.Networking.PodSubnet, podBitsMin)
	return append(append(errs, faults...),
		checkNodeCIDRs(at.Child("podSubnet"), pods, c.ControllerManager.ExtraArgs)...)
}

// checkSubnets parses one CIDR, or two of different IP families separated by a comma.
// Each must have at least that many bits for the addresses in it.
func checkSubnets(at *field.Path, text string, least int) ([]netip.Prefix, field.ErrorList) {
	var list []netip.Prefix
	for _, part := range strings.Split(text, ",") {
		s, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, invalid(at, text,
				"must be a CIDR such as 10.244.0.0/16, or an IPv4 and an IPv6 CIDR separated by a comma without spaces")
		}
		if s.Addr().BitLen()-s.Bits() < least {
			return nil, invalid(at, text,
				fmt.Sprintf("%s is too small: the prefix length must be at most /%d", s,
					s.Addr().BitLen()-least))
		}
		list = append(list, s)
	}
	if len(list) > 2 || len(list) == 2 && list[0].Addr().Is4() == list[1].Addr().Is4() {
		return nil, invalid(at, text, "must be one CIDR, or one IPv4 and one IPv6 CIDR")
	}
	return list, nil
}

// checkNodeCIDRs checks that the controller manager can allocate a Pod CIDR for each node.
func checkNodeCIDRs(at *field.Path, pods []netip.Prefix,
	extra []v1beta4.Arg) (errs field.ErrorList) {
	args := convertArgs(extra)
	if allocate, _ := node.LastArg(args, "allocate-node-cidrs"); allocate == "false" {
		return nil
	}
	for _, s := range pods {
		mask, name := nodeMaskIPv4, "node-cidr-mask-size-ipv4"
		if s.Addr().Is6() {
			mask, name = nodeMaskIPv6, "node-cidr-mask-size-ipv6"
		}
		value, _ := node.LastArg(args, name)
		var err error
		if value != "" {
			mask, err = strconv.Atoi(value)
		}
		switch {
		case err != nil:
			errs = append(errs, invalid(field.NewPath("controllerManager", "extraArgs").Key(name),
				field.OmitValueType{}, fmt.Sprintf("%q is not an integer", value))...)
		case s.Bits() > mask:
			errs = append(errs, invalid(at, s.String(),
				fmt.Sprintf("is smaller than the Pod CIDR of a single node, /%d: "+
					"use a larger subnet, or set %s in controllerManager.extraArgs", mask,
					name))...)
		case mask-s.Bits() > nodeCIDRBitsMax:
			errs = append(errs, invalid(at, s.String(),
				fmt.Sprintf("is too large for a Pod CIDR of /%d per node: "+
					"the prefix length must be at least /%d, or set %s in controllerManager.extraArgs",
					mask, mask-nodeCIDRBitsMax, name))...)
		}
	}
	return errs
}

// findOverlaps lists the pairs of overlapping service and Pod subnets. The texts have been
// checked.
func findOverlaps(services, pods string) (found []string) {
	for _, service := range strings.Split(services, ",") {
		for _, pod := range strings.Split(pods, ",") {
			s, err := netip.ParsePrefix(service)
			p, none := netip.ParsePrefix(pod)
			if err == nil && none == nil && s.Overlaps(p) {
				found = append(found, service+" and "+pod)
			}
		}
	}
	return found
}
