//go:build linux

package linux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/portable"
)

// Links lists the network interfaces as ip(8) does.
func (m Machine) Links(ctx context.Context) ([]state.Link, error) {
	if _, err := m.Program(ctx, "ip"); err != nil {
		return nil, err
	}
	var namespaces []struct {
		ID   int    `json:"nsid"`
		Name string `json:"name"`
	}
	var all []struct {
		Name        string `json:"ifname"`
		MTU         int    `json:"mtu"`
		NamespaceID *int   `json:"link_netnsid"`
	}
	for into, args := range map[any][]string{
		&namespaces: {"-json", "netns", "list-id"},
		&all:        {"-json", "link", "show"},
	} {
		out, err := portable.Run(ctx, "ip", args...)
		if err == nil && strings.TrimSpace(out) != "" { // nothing is printed for an empty list
			err = json.Unmarshal([]byte(out), into)
		}
		if err != nil {
			return nil, fmt.Errorf("listing network interfaces: %w", err)
		}
	}
	var links []state.Link
	for _, one := range all {
		l := state.Link{Name: one.Name, MTU: one.MTU}
		for _, n := range namespaces {
			if one.NamespaceID != nil && n.ID == *one.NamespaceID {
				l.Namespace = n.Name
			}
		}
		if i, err := net.InterfaceByName(one.Name); err == nil {
			addresses, _ := i.Addrs() // of one that is removed meanwhile
			for _, a := range addresses {
				if n, ok := a.(*net.IPNet); ok {
					l.Addresses = append(l.Addresses, n.IP.String())
				}
			}
		}
		links = append(links, l)
	}
	return links, nil
}

func removeLink(ctx context.Context, c change.RemoveInterface) error {
	_, err := portable.Run(ctx, "ip", "link", "delete", "dev", c.Name)
	if _, gone := net.InterfaceByName(c.Name); err != nil && gone != nil {
		return nil // it ended with its peer or its network namespace
	}
	return err
}

// PacketRules lists the rules that a program manages.
func (m Machine) PacketRules(ctx context.Context, program string) (string, error) {
	switch program {
	case "nft", "ipset":
		if _, err := m.Program(ctx, program); err != nil {
			return "", err
		}
		if program == "nft" {
			return portable.Run(ctx, "nft", "list", "tables")
		}
		return portable.Run(ctx, "ipset", "list", "-name")
	}
	save, err := m.findIPTables(ctx, program, "-save")
	if err != nil {
		return "", err
	}
	return portable.Run(ctx, save)
}

// findIPTables finds a program of the iptables family. Before its version 1.8 there was one
// implementation, without a suffix.
func (m Machine) findIPTables(ctx context.Context, program, suffix string) (string, error) {
	_, err := m.Program(ctx, program+suffix)
	if err == nil {
		return program + suffix, nil
	}
	family, legacy := strings.CutSuffix(program, "-legacy")
	if _, other := m.Program(ctx, family+"-nft"+suffix); !legacy || other == nil {
		return "", err
	}
	_, err = m.Program(ctx, family+suffix)
	return family + suffix, err
}

func (m Machine) removePacketRules(ctx context.Context, c change.RemovePacketRules) error {
	rules, err := m.PacketRules(ctx, c.Program)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !c.Matches(rules) {
		return err
	}
	switch c.Program {
	case "nft":
		var script strings.Builder // nft carries out all of it or nothing
		for _, table := range c.Removed(rules) {
			script.WriteString("delete " + table + "\n")
		}
		_, err := portable.RunWithInput(ctx, script.String(), "nft", "-f", "-")
		return err
	case "ipset":
		var errs []error
		for _, name := range c.Removed(rules) {
			_, err := portable.Run(ctx, "ipset", "destroy", name)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	restore, err := m.findIPTables(ctx, c.Program, "-restore")
	if err != nil {
		return err
	}
	// -w waits for the lock that programs of the older implementation hold.
	if _, err := portable.RunWithInput(ctx, c.Restore(rules), restore, "--noflush", "-w",
		"10"); err != nil {
		return err
	}
	now, err := m.PacketRules(ctx, c.Program)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range c.Idle(rules, now) {
		errs = append(errs, removeIdleTable(t))
	}
	return errors.Join(errs...)
}

// virtualServerFile lists the virtual servers of IPVS. It exists if the kernel module is loaded.
const virtualServerFile = "/proc/net/ip_vs"

// VirtualServers reads the kernel's list.
func (m Machine) VirtualServers(context.Context) ([]state.VirtualServer, error) {
	data, err := os.ReadFile(virtualServerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the virtual servers of IPVS: %w", err)
	}
	return parseVirtualServers(string(data)), nil
}

// parseVirtualServers reads lines such as "TCP  0A600001:01BB rr" and
// "UDP  [2001:0db8:0000:0000:0000:0000:0000:0001]:0035 rr". Other lines are headings, real servers
// and virtual servers of a firewall mark.
func parseVirtualServers(text string) (servers []state.VirtualServer) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "TCP" && f[0] != "UDP" && f[0] != "SCTP" {
			continue
		}
		host, hexPort, err := net.SplitHostPort(f[1])
		port, portErr := strconv.ParseUint(hexPort, 16, 16)
		if err != nil || portErr != nil {
			continue
		}
		ip, err := netip.ParseAddr(host)
		if v4, hexErr := strconv.ParseUint(host, 16, 32); err != nil && hexErr == nil {
			ip, err = netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8),
				byte(v4)}), nil
		}
		if err == nil {
			servers = append(servers,
				state.VirtualServer{Protocol: f[0], IP: ip.String(), Port: uint16(port)})
		}
	}
	return servers
}

func (m Machine) removeVirtualServers(ctx context.Context, c change.RemoveVirtualServers) error {
	all, err := m.VirtualServers(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if !c.Matches(s) {
			continue
		}
		if _, err := m.Program(ctx, "ipvsadm"); err != nil {
			return problem.New(err,
				"install ipvsadm and re-run the command, or restart the machine")
		}
		_, err := portable.Run(ctx, "ipvsadm", "--delete-service",
			"--"+strings.ToLower(s.Protocol)+"-service",
			net.JoinHostPort(s.IP, strconv.Itoa(int(s.Port))))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
