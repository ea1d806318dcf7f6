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
				found = append(found, state.Address{
					IP:           n.IP.String(),
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
	var all []defaultRoute
	for file, parse := range map[string]func(fields []string) (defaultRoute, bool){
		"/proc/net/route":      parseRouteIPv4,
		"/proc/net/ipv6_route": parseRouteIPv6,
	} {
		table, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // ipv6_route does not exist without IPv6
			return nil, err
		}
		all = append(all, parseRoutes(string(table), parse)...)
	}
	slices.SortStableFunc(all, func(a, b defaultRoute) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.metric, b.metric))
	})
	var names []string
	for _, r := range all {
		if !slices.Contains(names, r.device) {
			names = append(names, r.device)
		}
	}
	return names, nil
}

// defaultRoute is a default route.
type defaultRoute struct {
	family int
	device string
	metric uint64
}

func parseRoutes(table string, parse func(fields []string) (defaultRoute, bool)) []defaultRoute {
	var all []defaultRoute
	for line := range strings.Lines(table) {
		if r, ok := parse(strings.Fields(line)); ok {
			all = append(all, r)
		}
	}
	return all
}

// parseRouteIPv4 parses a line of /proc/net/route: interface, destination, gateway, flags,
// reference count, uses, metric, mask; all but the metric in base 16.
func parseRouteIPv4(f []string) (defaultRoute, bool) {
	if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
		return defaultRoute{}, false
	}
	metric, err := strconv.ParseUint(f[6], 10, 64)
	return defaultRoute{4, f[0], metric}, err == nil && isUsableRoute(f[3])
}

// parseRouteIPv6 parses a line of /proc/net/ipv6_route: destination, its prefix length, source,
// its prefix length, next hop, metric, reference count, uses, flags, interface; numbers in base
// 16.
func parseRouteIPv6(f []string) (defaultRoute, bool) {
	if len(f) < 10 || strings.Trim(f[0]+f[1], "0") != "" {
		return defaultRoute{}, false
	}
	metric, err := strconv.ParseUint(f[5], 16, 64)
	return defaultRoute{6, f[9], metric}, err == nil && isUsableRoute(f[8])
}

func isUsableRoute(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 32)
	return err == nil && n&unix.RTF_UP != 0 && n&unix.RTF_REJECT == 0
}
