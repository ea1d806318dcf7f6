package run

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"kubeadm/internal/config"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Limits of looking up the version behind a label. A name server that answers at all does so at
// once.
const (
	labelLimit = 10 * time.Second
	dnsLimit   = 3 * time.Second
)

// Needs says which facts must be known.
type Needs struct {
	Runtimes bool // the container runtimes of this machine
	Address  bool // the address at which others reach this machine
}

// Facts gathers what a configuration is resolved from.
func (h Host) Facts(ctx context.Context, needs Needs) (config.Facts, error) {
	r := h.World
	tool, err := release.ParseTool(h.Version)
	if err != nil {
		return config.Facts{}, err
	}
	host, err := r.Host(ctx)
	if err != nil {
		return config.Facts{}, err
	}
	f := config.Facts{
		Tool: tool, AddressOptional: !needs.Address, Hostname: host.Hostname,
		Platform: host.Platform, Fetch: FetchVersion(ctx, r),
		Random: h.Random("bootstrap-token"), Now: r.Now(),
	}
	if f.Addresses, err = r.Addresses(ctx); err != nil {
		return f, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	// Not all users may read it. Without it, an ambiguous --node-address-from is an error.
	flags, _ := state.ReadOptional(ctx, r, host.Platform.Paths().KubeletFlags())
	for _, arg := range strings.FieldsFunc(string(flags), func(c rune) bool { return strings.ContainsRune(" \n\"'", c) }) {
		if ip, isNodeIP := strings.CutPrefix(arg, "--node-ip="); isNodeIP {
			f.NodeIP = ip
		}
	}
	if needs.Runtimes {
		if f.Runtimes, err = r.Runtimes(ctx); err != nil {
			return f, fmt.Errorf("looking for container runtimes: %w", err)
		}
	}
	admin := host.Platform.Paths().Kubeconfig("admin.conf")
	if _, err := r.Stat(ctx, admin); err == nil {
		f.AdminKubeconfig = admin
	}
	return f, nil
}

// FetchVersion looks up version labels in the network, and gives up fast where there is none.
func FetchVersion(ctx context.Context, r state.Reader) release.Fetch {
	return func(address string) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, labelLimit,
			fmt.Errorf("no answer within %s", labelLimit))
		defer cancel()
		if err := resolveHost(ctx, r, address); err != nil {
			return "", err
		}
		answer, err := r.Fetch(ctx, state.Request{URL: address})
		if err != nil {
			return "", err
		}
		if answer.Status != 200 {
			return "", fmt.Errorf("%s answered with status %d", address, answer.Status)
		}
		return string(answer.Body), nil
	}
}

// resolveHost is an error if the URL's host name does not resolve. Behind a proxy the proxy
// resolves it.
func resolveHost(ctx context.Context, r state.Reader, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if proxy, err := r.Proxy(ctx, u.Host); err != nil || proxy != "" {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dnsLimit, errors.New("no name server answers"))
	defer cancel()
	if _, err := r.Lookup(ctx, u.Hostname()); err != nil {
		return fmt.Errorf("resolving %s: %w", u.Hostname(), err)
	}
	return nil
}
