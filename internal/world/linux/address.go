//go:build linux

package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kubeadm/internal/state"
)

// Addresses lists the global unicast addresses of all interfaces that are up: those of the
// interface with the default route first (IPv4 before IPv6), those of the loopback interface last.
func (m Machine) Addresses(context.Context) ([]state.Address, error) {
	routes, err := listDefaultRoutes()
	if err != nil {
		return nil, fmt.Errorf("reading the routes: %w", err)
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var found []state.Address
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				bits, _ := n.Mask.Size()
				found = append(found, state.Address{
					IP:           n.IP.String(),
					Bits:         bits,
					Interface:    i.Name,
					DefaultRoute: slices.Contains(routes, i.Name),
					Loopback:     i.Flags&net.FlagLoopback != 0,
				})
			}
		}
	}
	slices.SortStableFunc(found,
		func(a, b state.Address) int {
			return cmp.Compare(addressRank(a, routes),
				addressRank(b, routes))
		})
	return found, nil
}

func addressRank(a state.Address, routes []string) int {
	if a.DefaultRoute {
		return slices.Index(routes, a.Interface)
	}
	if a.Loopback {
		return len(routes) + 1
	}
	return len(routes)
}

// listDefaultRoutes returns the interfaces with a default route, IPv4 before IPv6 and then by
// metric.
func listDefaultRoutes() ([]string, error) {
	var names []string
	for _, columns := range []routeColumns{ipv4Routes, ipv6Routes} {
		table, err := os.ReadFile(columns.file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // ipv6_route does not exist without IPv6
			return nil, err
		}
		for _, r := range columns.parseDefaultRoutes(string(table)) {
			if !slices.Contains(names, r.device) {
				names = append(names, r.device)
			}
		}
	}
	return names, nil
}

// routeColumns says which column of a routing table has what, counted from zero.
type routeColumns struct {
	file          string
	zero          [2]int // zero for a default route
	device, flags int
	metric, base  int // base is that of the metric
}

var (
	// interface, destination, gateway, flags, reference count, uses, metric, mask; all but the
	// metric in base 16
	ipv4Routes = routeColumns{file: "/proc/net/route", zero: [2]int{1, 7}, device: 0, flags: 3,
		metric: 6, base: 10}
	// destination, its prefix length, source, its prefix length, next hop, metric, reference count,
	// uses, flags, interface; numbers in base 16
	ipv6Routes = routeColumns{file: "/proc/net/ipv6_route", zero: [2]int{0, 1}, device: 9,
		flags: 8, metric: 5, base: 16}
)

// defaultRoute is a default route.
type defaultRoute struct {
	device string
	metric uint64
}

// parseDefaultRoutes returns the default routes of a table that are in use, by metric.
func (c routeColumns) parseDefaultRoutes(table string) []defaultRoute {
	var all []defaultRoute
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) <= max(c.zero[1], c.device) ||
			strings.Trim(f[c.zero[0]]+f[c.zero[1]], "0") != "" {
			continue
		}
		metric, metricErr := strconv.ParseUint(f[c.metric], c.base, 64)
		flags, flagsErr := strconv.ParseUint(f[c.flags], 16, 32)
		if metricErr == nil && flagsErr == nil && flags&unix.RTF_UP != 0 &&
			flags&unix.RTF_REJECT == 0 {
			all = append(all, defaultRoute{f[c.device], metric})
		}
	}
	slices.SortStableFunc(all,
		func(a, b defaultRoute) int { return cmp.Compare(a.metric, b.metric) })
	return all
}
