package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Bounds of looking up which version is behind a label. A name server that answers at all does so at once.
const (
	labelLimit  = 10 * time.Second
	lookupLimit = 3 * time.Second
)

// inputs are what a configuration is resolved from: the file that the user names and facts of
// this machine. Flags beside a file may be refused.
func (p *program) inputs(c *cobra.Command, r state.Reader, name string, refuse func(flags []string) error) (config.File, config.Facts, error) {
	ctx := c.Context()
	if name == "" && slices.Contains(given(c), string(flag.Config)) {
		warn(p.text(false), []string{"--config is empty, as if it were not given: name a file, or leave it out"})
	}
	file, err := p.readConfig(ctx, r, name)
	if err == nil && file.Given() {
		err = refuse(given(c))
	}
	if err != nil {
		return file, config.Facts{}, err
	}
	facts, err := p.facts(ctx, r, c.Flag(string(flag.CRISocket)) != nil)
	facts.AddressOptional = !needsAddress(c)
	return file, facts, err
}

// needsAddress reports whether the command needs the address of this machine. Most that do have the flag for it.
func needsAddress(c *cobra.Command) bool {
	phase, isInit := strings.CutPrefix(c.CommandPath(), c.Root().Name()+" init phase ")
	if !isInit || c.Flag(string(flag.APIServerAdvertise)) != nil {
		return true
	}
	return slices.Contains([]string{"preflight", "certs etcd-server", "certs etcd-peer", "etcd all", "etcd local", "wait-control-plane"}, phase)
}

// facts are what a configuration is resolved with. Container runtimes are looked for only if that is asked.
func (p *program) facts(ctx context.Context, r state.Reader, runtimes bool) (config.Facts, error) {
	tool, err := p.tool()
	if err != nil {
		return config.Facts{}, err
	}
	host, err := r.Host(ctx)
	if err != nil {
		return config.Facts{}, err
	}
	f := config.Facts{Tool: tool, Hostname: host.Hostname, Fetch: fetch(ctx, r), Random: p.Random("bootstrap-token"), Now: r.Now()}
	if f.Addresses, err = r.Addresses(ctx); err != nil {
		return f, fmt.Errorf("looking for the addresses of this machine: %w", err)
	}
	if runtimes {
		if f.Runtimes, err = r.Runtimes(ctx); err != nil {
			return f, fmt.Errorf("looking for container runtimes: %w", err)
		}
	}
	admin := node.DefaultPaths().Kubeconfig("admin.conf")
	if _, err := r.Stat(ctx, admin); err == nil {
		f.AdminKubeconfig = admin
	}
	return f, nil
}

// fetch looks up version labels in the network, and gives up fast where there is none.
func fetch(ctx context.Context, r state.Reader) release.Fetch {
	return func(address string) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, labelLimit, fmt.Errorf("no answer within %s", labelLimit))
		defer cancel()
		if err := reachable(ctx, r, address); err != nil {
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

// reachable tells whether the host's name resolves; behind a proxy that is for the proxy to find out.
func reachable(ctx context.Context, r state.Reader, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if proxy, err := r.Proxy(ctx, u.Host); err != nil || proxy != "" {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookupLimit, errors.New("no name server answers"))
	defer cancel()
	if _, err := r.Lookup(ctx, u.Hostname()); err != nil {
		return fmt.Errorf("resolving %s: %w", u.Hostname(), err)
	}
	return nil
}

// readConfig reads the configuration file, if the user names one.
func (p *program) readConfig(ctx context.Context, r state.Reader, name string) (config.File, error) {
	file, err := readConfigOf(ctx, r, flag.Config, name)
	file.Strict = p.strict
	return file, err
}

// readConfigOf reads the configuration file that a flag names, if it was given.
func readConfigOf(ctx context.Context, r state.Reader, by flag.Name, name string) (config.File, error) {
	if name == "" {
		return config.File{}, nil
	}
	data, err := r.ReadFile(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return config.File{}, problem.New("", fmt.Errorf("there is no configuration file %s", untrusted.Line(name)), fmt.Sprintf("check the path given with --%s", by))
	case err != nil:
		return config.File{}, problem.New("reading the configuration file", err, "name a file that can be read with --config")
	}
	return config.File{Name: name, Data: data}, nil
}
