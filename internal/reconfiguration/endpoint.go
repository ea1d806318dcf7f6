package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// EndpointChange is a change of the URL by which clients reach the API servers. Each change of the
// configuration has it, from the one that begins it until the one that finishes it.
type EndpointChange struct {
	// From are the URLs from before: first that of cluster-info. They stay valid until the change is finished.
	From []string `json:"from"`
	To   string   `json:"to"`
	// Added are the names that certificates have only until the change is finished: hosts of From.
	Added []string `json:"added,omitempty"`
	// Bare is set if the cluster had no controlPlaneEndpoint: nodes depend on one control plane node.
	Bare bool `json:"bare,omitempty"`
}

// EndpointWanted is a change of the endpoint that the user wants.
type EndpointWanted struct {
	Wanted
	// Host is the host of the new endpoint.
	Host string
	// Behind are the other control plane nodes whose API servers have no certificate for Host, each with the
	// reason. As long as there is one, the change is only that of certificates.
	Behind []string
	// Done is set if there is nothing to do on this node.
	Done bool
}

// FindEndpoint returns the change that leads to another endpoint, or goes on with one. First each API server
// gets a certificate for it: until then the change is that of this node's certificate. It is an error if the
// endpoint does not lead to an API server of this cluster.
func FindEndpoint(ctx context.Context, e *engine.Env, here existing.Machine, endpoint string) (w EndpointWanted, err error) {
	r := finder{e: e, here: here}
	stored, found, err := r.read(ctx)
	if err != nil {
		return w, err
	}
	if endpoint == "" {
		return w, problem.New(errors.New("the new endpoint is empty"), "name it: kubeadm endpoint change HOST[:PORT]")
	}
	flags := config.ReconfigureFlags{Endpoint: endpoint}
	wanted, how, err := config.Reconfigure(config.File{}, flags, stored, here.BindPort)
	for _, text := range how.Warnings {
		e.Named("config").Warn("%s", text)
	}
	if err != nil {
		return w, err
	}
	now, err := r.complete(ctx, stored)
	if err != nil {
		return w, err
	}
	after, err := r.complete(ctx, wanted)
	if err != nil {
		return w, err
	}
	w.Host = after.Site().ControlPlaneHost
	to := after.ServerURL()
	if begun := found.endpoint(); begun != nil {
		if begun.To != to {
			return w, explainBegun(found)
		}
		w.Wanted, err = r.resumeEndpoint(ctx, stored, found, w.Host)
		return w, err
	}
	if err := checkHost(w.Host, now); err != nil {
		return w, err
	}
	info, err := readInfoServer(ctx, e, here.As)
	if err != nil {
		return w, err
	}
	proxy, err := readProxyServer(ctx, e, here.As)
	if err != nil {
		return w, err
	}
	change := &EndpointChange{To: to, Bare: now.Cluster.Endpoint == "", From: otherServers(to, info, now.ServerURL(), proxy)}
	if len(change.From) == 0 {
		missing, err := FindSANChanges(ctx, e, now, after)
		if err == nil && len(missing) > 0 {
			err = problem.New(fmt.Errorf("the certificate of this node's API server is not that of the configuration, which "+
				"has the endpoint %s already", after.Cluster.Endpoint), "bring this node to it: kubeadm reconfigure apply")
		}
		w.Done = true
		return w, err
	}
	if err := checkLeadsHere(ctx, e, here, to); err != nil {
		return w, err
	}
	if w.Behind, err = r.listUncertified(ctx, w.Host); err != nil {
		return w, err
	}
	if len(w.Behind) > 0 {
		return w, r.findCertificate(ctx, &w, stored, found)
	}
	// A ConfigMap that was edited by hand names the new endpoint already: the change is that from the old one.
	before := stored
	if now.ServerURL() == to {
		old := config.ReconfigureFlags{Endpoint: hostPort(change.From[0])}
		if before, _, err = config.Reconfigure(config.File{}, old, stored, here.BindPort); err != nil {
			return w, err
		}
	}
	if wanted, err = r.keepNames(ctx, change, wanted); err != nil {
		return w, err
	}
	w.Wanted, err = r.find(ctx, stored, r.newChange(change, before, wanted), found)
	return w, err
}

// otherServers are the servers other than the new one, each once.
func otherServers(to string, all ...string) (others []string) {
	for _, server := range all {
		if server != "" && server != to && !slices.Contains(others, server) {
			others = append(others, server)
		}
	}
	return others
}

// keepNames returns a configuration with the hosts from before in the certificates until the change is finished.
// The address of this node's API server is in its certificate anyway.
func (f finder) keepNames(ctx context.Context, c *EndpointChange, stored config.StoredConfig) (config.StoredConfig, error) {
	n, err := f.complete(ctx, stored)
	if err != nil {
		return stored, err
	}
	c.Added = nil
	for _, server := range c.From {
		host := hostOf(server)
		if host != hostOf(c.To) && host != f.here.Address && !slices.Contains(n.Cluster.CertSANs, host) &&
			!slices.Contains(c.Added, host) {
			c.Added = append(c.Added, host)
		}
	}
	kept, _, err := config.Reconfigure(config.File{}, config.ReconfigureFlags{AddCertSANs: c.Added}, stored, f.here.BindPort)
	return kept, err
}

// resumeEndpoint goes on with a change of the endpoint as the cluster stores it.
func (f finder) resumeEndpoint(ctx context.Context, stored config.StoredConfig, found *State, host string) (w Wanted, err error) {
	own, err := f.isOwn(ctx, found, stored)
	if err != nil {
		return w, err
	}
	if !own {
		return w, f.explainForeignChange(ctx, found.After, stored)
	}
	if found.Stored == nil {
		behind, err := f.listUncertified(ctx, host)
		if err == nil && len(behind) > 0 {
			err = problem.New(fmt.Errorf("these control plane nodes are not ready for %s:\n  %s", host,
				strings.Join(behind, "\n  ")), "take the change back: kubeadm reconfigure undo", "then begin again")
		}
		if err != nil {
			return w, err
		}
	}
	return f.find(ctx, stored, found, found)
}

// newChange is a change of the endpoint that begins.
func (f finder) newChange(c *EndpointChange, before, after config.StoredConfig) *State {
	s := New(f.here.Name, before, after, f.e.World.Now())
	s.Endpoint = c
	return s
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
	w.Wanted, err = f.find(ctx, stored, New(f.here.Name, stored, wanted, f.e.World.Now()), found)
	return err
}

// FindEndpointFinish returns the change that finishes that of the endpoint: the certificates lose the hosts
// from before. It is an error if a node has not followed.
func FindEndpointFinish(ctx context.Context, e *engine.Env, here existing.Machine) (w EndpointWanted, err error) {
	r := finder{e: e, here: here}
	stored, found, err := r.read(ctx)
	if err != nil {
		return w, err
	}
	begun := found
	if found != nil && found.Stored == nil && found.Endpoint == nil { // perhaps an interrupted finish
		begun = found.Earlier.Latest()
	}
	if begun == nil || begun.Endpoint == nil {
		w.Done = true
		return w, nil
	}
	if begun.Stored == nil {
		return w, problem.New(fmt.Errorf("the change of the endpoint to %s has not been completed on node %s",
			untrusted.Line(begun.Endpoint.To), untrusted.Line(begun.Node)),
			untrusted.CommandHint("on that node", "kubeadm endpoint change", hostPort(begun.Endpoint.To)))
	}
	all, err := begun.ReadProgress(ctx, e.Reader(), here.As)
	if err != nil {
		return w, err
	}
	if behind := append(ListBehind(all, true), ListBehind(all, false)...); len(behind) > 0 {
		return w, problem.New(fmt.Errorf("these nodes may still use the endpoint from before: %s",
			strings.Join(behind, ", ")), "on each of them: kubeadm reconfigure node",
			"if a node is permanently lost, delete its Node: kubectl delete node NAME")
	}
	proxy, err := readProxyServer(ctx, e, here.As)
	if err != nil {
		return w, err
	}
	if slices.Contains(begun.Endpoint.Added, hostOf(proxy)) {
		return w, problem.New(fmt.Errorf("ConfigMap kube-system/kube-proxy still has the endpoint from before, %s",
			untrusted.Line(proxy)), "change the server in its kubeconfig.conf, and restart the Pods that read it")
	}
	wanted, _, err := config.Reconfigure(config.File{}, config.ReconfigureFlags{RemoveCertSANs: begun.Endpoint.Added},
		stored, here.BindPort)
	if err != nil {
		return w, err
	}
	w.Host = hostOf(begun.Endpoint.To)
	w.Wanted, err = r.find(ctx, stored, New(here.Name, stored, wanted, e.World.Now()), found)
	return w, err
}

// endpoint is the change of the endpoint that is not finished; nil for none.
func (s *State) endpoint() *EndpointChange {
	if s == nil {
		return nil
	}
	return s.Endpoint
}

// hasEndpoint reports whether a change, or the one before it, changes the endpoint.
func (s *State) hasEndpoint() bool {
	for ; s != nil; s = s.Earlier {
		if s.Endpoint != nil {
			return true
		}
	}
	return false
}

// Reversed is the change of the endpoint that takes another one back.
func (c *EndpointChange) Reversed() *EndpointChange {
	return &EndpointChange{From: append([]string{c.To}, c.From[1:]...), To: c.From[0]}
}

// isTo reports whether two changes lead to the same endpoint; nil is none.
func (c *EndpointChange) isTo(other *EndpointChange) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.To == other.To
}

func explainBegun(found *State) error {
	begun := found.Endpoint
	err := fmt.Errorf("a change of the endpoint from %s to %s has not been finished", untrusted.Line(begun.From[0]),
		untrusted.Line(begun.To))
	if found.Stored == nil {
		return problem.New(err, untrusted.CommandHint("to complete it, on node "+untrusted.Line(found.Node),
			"kubeadm endpoint change", hostPort(begun.To)), "to take it back, on that node: kubeadm reconfigure undo")
	}
	return problem.New(err, "see which nodes have not followed: kubeadm endpoint status",
		"to finish it: kubeadm endpoint finish")
}
