package reconfiguration

import (
	"context"
	"slices"

	"kubeadm/internal/config"
	"kubeadm/internal/node"
)

// EndpointChange is a change of the URL by which clients reach the API servers. Each change of the
// configuration has it, from the one that begins it until the one that finishes it.
type EndpointChange struct {
	// From are the URLs from before: first that of cluster-info. They stay valid until the change is finished.
	From []string `json:"from"`
	To   string   `json:"to"`
	// Added are the names that certificates have only until the change is finished: hosts of From.
	Added []string `json:"added,omitempty"`
	// Prepared is the host of To if apiServer.certSANs had it only to prepare the change.
	Prepared []string `json:"prepared,omitempty"`
	// Bare is set if the cluster had no controlPlaneEndpoint: nodes depend on one control plane node.
	Bare bool `json:"bare,omitempty"`
}

// hostsFrom are the hosts from before, other than the new one.
func (c *EndpointChange) hostsFrom() (hosts []string) {
	for _, server := range c.From {
		if host := node.HostOf(server); !node.SameHost(host, node.HostOf(c.To)) && !node.HasHost(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Reversed is the change of the endpoint that takes another one back, to the URL that the configuration had.
func (c *EndpointChange) Reversed(to string) *EndpointChange {
	return &EndpointChange{From: otherServers(to, append([]string{c.To}, c.From...)...), To: to}
}

// isTo reports whether two changes lead to the same endpoint; nil is none.
func (c *EndpointChange) isTo(other *EndpointChange) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.To == other.To
}

// isSame reports whether they also add the same names to certificates.
func (c *EndpointChange) isSame(other *EndpointChange) bool {
	return c.isTo(other) && (c == nil || hasSameNames(c.Added, other.Added))
}

func hasSameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// prepared are the names in apiServer.certSANs that prepare a change of the endpoint.
func (s *State) prepared() []string {
	if s == nil {
		return nil
	}
	return s.Prepared
}

// withoutNames returns a configuration without names of certificates.
func (f finder) withoutNames(stored config.StoredConfig, names []string) (config.StoredConfig, error) {
	changed, _, err := config.Reconfigure(config.File{}, config.ReconfigureFlags{RemoveCertSANs: names}, stored,
		f.here.BindPort)
	return changed, err
}

// keepNames returns a configuration with the hosts from before in the certificates until the change is finished.
// The address of this node's API server is in its certificate anyway.
func (f finder) keepNames(ctx context.Context, c *EndpointChange, stored config.StoredConfig) (config.StoredConfig, error) {
	n, err := f.complete(ctx, stored)
	if err != nil {
		return stored, err
	}
	c.Added = nil
	for _, host := range c.hostsFrom() {
		if !node.SameHost(host, f.here.Address) && !node.HasHost(n.Cluster.CertSANs, host) {
			c.Added = append(c.Added, host)
		}
	}
	kept, _, err := config.Reconfigure(config.File{}, config.ReconfigureFlags{AddCertSANs: c.Added}, stored, f.here.BindPort)
	return kept, err
}

// keepBothNames returns a request after which the certificates have the hosts from before until the change of the
// endpoint is finished, whatever the user's file says. Names that the user lists meanwhile are the user's own.
func (f finder) keepBothNames(ctx context.Context, q Request, stored config.StoredConfig,
	c *EndpointChange) (Request, *EndpointChange, error) {
	listed, err := f.listedNames(ctx, q, stored, c.Added)
	if err != nil {
		return q, c, err
	}
	now, err := f.complete(ctx, stored)
	if err != nil {
		return q, c, err
	}
	kept := *c
	kept.Added = nil
	for _, host := range append(slices.Clone(c.Added), c.hostsFrom()...) {
		isKept := node.HasHost(c.Added, host) || node.HasHost(now.Cluster.CertSANs, host)
		if isKept && !node.HasHost(listed, host) && !node.HasHost(kept.Added, host) {
			kept.Added = append(kept.Added, host)
		}
	}
	q.Flags.AddCertSANs = append(slices.Clone(q.Flags.AddCertSANs), kept.Added...)
	return q, &kept, nil
}

// listedNames are those that certificates would have after a request without names that this program has added to the
// configuration.
func (f finder) listedNames(ctx context.Context, q Request, stored config.StoredConfig, added []string) ([]string, error) {
	base, err := f.withoutNames(stored, added)
	if err != nil {
		return nil, err
	}
	flags := q.Flags
	if q.Base != "" { // the editor has shown these names
		flags.RemoveCertSANs = added
	}
	own, _, err := config.Reconfigure(q.File, flags, base, f.here.BindPort)
	if err != nil {
		return nil, err
	}
	n, err := f.complete(ctx, own)
	if err != nil {
		return nil, err
	}
	return n.Cluster.CertSANs, nil
}

// stillPrepared are the names that still prepare a change of the endpoint after a request: those that the user lists
// are the user's own.
func (f finder) stillPrepared(ctx context.Context, q Request, stored config.StoredConfig, found *State) ([]string, error) {
	names := found.prepared()
	if len(names) == 0 {
		return nil, nil
	}
	listed, err := f.listedNames(ctx, q, stored, names)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return node.HasHost(listed, name) }), err
}

// usePrepared is keepNames for a configuration whose apiServer.certSANs lose the host of the new endpoint, if that was
// there only to prepare the change: certificates have the host of the endpoint. It returns too which names are still
// prepared.
func (f finder) usePrepared(ctx context.Context, c *EndpointChange, stored config.StoredConfig,
	found *State) (_ config.StoredConfig, prepared []string, err error) {
	host := node.HostOf(c.To)
	if prepared = slices.Clone(found.prepared()); node.HasHost(prepared, host) {
		c.Prepared = []string{host}
		prepared = slices.DeleteFunc(prepared, func(name string) bool { return node.SameHost(name, host) })
		if stored, err = f.withoutNames(stored, c.Prepared); err != nil {
			return stored, prepared, err
		}
	}
	stored, err = f.keepNames(ctx, c, stored)
	return stored, prepared, err
}

// findCertificate finds the change that adds the host of the endpoint to the certificates.
func (f finder) findCertificate(ctx context.Context, w *EndpointWanted, stored config.StoredConfig, found *State) error {
	flags := config.ReconfigureFlags{AddCertSANs: []string{w.Host}}
	wanted, _, err := config.Reconfigure(config.File{}, flags, stored, f.here.BindPort)
	if err != nil {
		return err
	}
	before, err := f.complete(ctx, stored)
	if err != nil {
		return err
	}
	after, err := f.complete(ctx, wanted)
	if err != nil {
		return err
	}
	missing, err := FindSANChanges(ctx, f.e, before, after)
	if err != nil {
		return err
	}
	if w.Done = len(missing) == 0 && config.IsSame(&before.Cluster, &after.Cluster); w.Done {
		return nil
	}
	begins := f.newChange(nil, stored, wanted)
	begins.Prepared = slices.Clone(found.prepared())
	if !node.HasHost(before.Cluster.CertSANs, w.Host) && !node.HasHost(begins.Prepared, w.Host) {
		begins.Prepared = append(begins.Prepared, w.Host)
	}
	w.Wanted, err = f.find(ctx, stored, begins, found)
	return err
}
