package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/state"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Addresses lists global unicast addresses of up interfaces: those of the interface that
// carries the default route first (of IPv4 before IPv6), those of the loopback interface last.
func (m Machine) Addresses(context.Context) ([]state.Address, error) {
	routes, err := defaultRoutes()
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
	slices.SortStableFunc(found, func(a, b state.Address) int { return cmp.Compare(rank(a, routes), rank(b, routes)) })
	return found, nil
}

func rank(a state.Address, routes []string) int {
	if a.DefaultRoute {
		return slices.Index(routes, a.Interface)
	}
	if a.Loopback {
		return len(routes) + 1
	}
	return len(routes)
}

// defaultRoutes are the interfaces that carry a default route, the most preferred first and IPv4 before IPv6.
func defaultRoutes() ([]string, error) {
	var all []route
	for file, parse := range map[string]func(fields []string) (route, bool){
		"/proc/net/route":      route4,
		"/proc/net/ipv6_route": route6,
	} {
		table, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // without IPv6 there is no table of it
			return nil, err
		}
		all = append(all, parseRoutes(string(table), parse)...)
	}
	slices.SortStableFunc(all, func(a, b route) int {
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

// route is a default route.
type route struct {
	family int
	device string
	metric uint64
}

func parseRoutes(table string, parse func(fields []string) (route, bool)) []route {
	var all []route
	for line := range strings.Lines(table) {
		if r, ok := parse(strings.Fields(line)); ok {
			all = append(all, r)
		}
	}
	return all
}

// route4 reads a line of /proc/net/route: interface, destination, gateway, flags, reference
// count, uses, metric, mask; all but the metric in base 16.
func route4(f []string) (route, bool) {
	if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
		return route{}, false
	}
	metric, err := strconv.ParseUint(f[6], 10, 64)
	return route{4, f[0], metric}, err == nil && usable(f[3])
}

// route6 reads a line of /proc/net/ipv6_route: destination, its prefix length, source, its prefix
// length, next hop, metric, reference count, uses, flags, interface; numbers in base 16.
func route6(f []string) (route, bool) {
	if len(f) < 10 || strings.Trim(f[0]+f[1], "0") != "" {
		return route{}, false
	}
	metric, err := strconv.ParseUint(f[5], 16, 64)
	return route{6, f[9], metric}, err == nil && usable(f[8])
}

func usable(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 32)
	return err == nil && n&unix.RTF_UP != 0 && n&unix.RTF_REJECT == 0
}
