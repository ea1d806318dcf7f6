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
	"kubeadm/internal/world/portable"
)

// Addresses lists the global unicast addresses of all interfaces that are up: those of the
// interface with the default route first (IPv4 before IPv6), those of the loopback interface last.
func (m Machine) Addresses(context.Context) ([]state.Address, error) {
	routes, err := listDefaultRoutes()
	if err != nil {
		return nil, fmt.Errorf("reading the routes: %w", err)
	}
	return portable.Addresses(func(i net.Interface) int { return slices.Index(routes, i.Name) })
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
