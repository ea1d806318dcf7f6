package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kubeadm/internal/node"
)

// warnAboutNode warns of settings that work on some machines or with some network add-ons, but are
// probably not intended. The address may be empty.
func warnAboutNode(in *initDocuments, address string) (warnings []string) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf(format, args...))
	}
	c := &in.cluster
	driver := in.kubelet.Config.CgroupDriver
	if driver != "" && driver != cgroupDriver && driver != "cgroupfs" {
		warn("%s cgroupDriver %q is neither systemd nor cgroupfs: "+
			"if the container runtime does not report its driver, the kubelet uses cgroupfs",
			kindKubelet, driver)
	}
	dirs := []struct{ field, dir string }{{"certificatesDir", c.CertificatesDir}}
	if c.Etcd.Local != nil {
		dirs = append(dirs, struct{ field, dir string }{"etcd.local.dataDir", c.Etcd.Local.DataDir})
	}
	for _, d := range dirs {
		if node.IsSystemDir(d.dir) {
			warn("%s %q is a directory of the operating system, which \"kubeadm reset\" does not empty: "+
				"use another directory", d.field, d.dir)
		}
	}
	services, pods := parseCheckedSubnets(c.Networking.ServiceSubnet),
		parseCheckedSubnets(c.Networking.PodSubnet)
	if ip, err := netip.ParseAddr(address); err == nil {
		inside := func(s netip.Prefix) bool { return s.Contains(ip) }
		if i := slices.IndexFunc(services, inside); i >= 0 {
			warn("advertise address %s is inside serviceSubnet %s: "+
				"a Service may get the same address, which makes the API server unreachable", ip,
				services[i])
		}
		if i := slices.IndexFunc(pods, inside); i >= 0 {
			warn("advertise address %s is inside podSubnet %s: "+
				"most network add-ons then route traffic for this machine to Pods", ip, pods[i])
		}
	}
	return append(warnings, warnAboutIPFamilies(services, pods)...)
}

// warnAboutIPFamilies warns of service and Pod subnets whose IP families do not match.
func warnAboutIPFamilies(services, pods []netip.Prefix) []string {
	if len(services) == 0 || len(pods) == 0 {
		return nil
	}
	differ := pods[0].Addr().Is4() != services[0].Addr().Is4()
	switch {
	case len(services) == 1 && len(pods) == 1 && differ:
		return []string{fmt.Sprintf(
			"podSubnet %s and serviceSubnet %s are of different IP families: "+
				"no Pod can reach a Service", pods[0], services[0])}
	case len(services) == 2 && len(pods) == 1:
		return []string{"serviceSubnet has two IP families, podSubnet has one: " +
			"Services of the other family have no endpoints"}
	case differ:
		return []string{fmt.Sprintf("serviceSubnet begins with %s and podSubnet with %s: "+
			"list the IP family of the advertise address first in both", services[0], pods[0])}
	}
	return nil
}

// parseCheckedSubnets parses subnets that have been checked.
func parseCheckedSubnets(subnets string) (list []netip.Prefix) {
	for part := range strings.SplitSeq(subnets, ",") {
		if s, err := netip.ParsePrefix(part); err == nil {
			list = append(list, s)
		}
	}
	return list
}
