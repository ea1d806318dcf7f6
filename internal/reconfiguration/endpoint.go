package reconfiguration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
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
	if err := cmp.Or(checkFinished(found), checkHost(w.Host, now)); err != nil {
		return w, err
	}
	info, proxy, err := readServers(ctx, e, here.As)
	if err != nil {
		return w, err
	}
	change := &EndpointChange{To: to, Bare: now.Cluster.Endpoint == "", From: otherServers(to, info, now.ServerURL())}
	if len(change.From) == 0 && !IsLoopback(proxy) { // kube-proxy may have been forgotten
		change.From = otherServers(to, proxy)
	}
	if len(change.From) == 0 && now.Cluster.Endpoint == "" {
		e.Warn("%s is the address of this node: nodes that use it lose the cluster if this node is removed, unless the "+
			"address moves to another machine", untrusted.Line(w.Host))
		w.Wanted, err = r.find(ctx, stored, New(here.Name, stored, wanted, e.World.Now()), found)
		return w, err
	}
	if len(change.From) == 0 {
		w.Done = true
		return w, checkIssued(ctx, e, now, after)
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
	before, err := r.findBefore(ctx, change, stored, now)
	if err != nil {
		return w, err
	}
	if wanted, err = r.keepNames(ctx, change, wanted); err != nil {
		return w, err
	}
	w.Wanted, err = r.find(ctx, stored, r.newChange(change, before, wanted), found)
	return w, err
}

// readServers returns the servers that cluster-info and kube-proxy name.
func readServers(ctx context.Context, e *engine.Env, as state.Identity) (info, proxy string, err error) {
	if info, err = readInfoServer(ctx, e, as); err != nil {
		return info, proxy, err
	}
	proxy, err = readProxyServer(ctx, e, as)
	return info, proxy, err
}

// checkFinished is an error if a change of the endpoint is being finished.
func checkFinished(found *State) error {
	finished := found.EndpointState()
	if finished == nil {
		return nil
	}
	return problem.New(fmt.Errorf("the change of the endpoint to %s is being finished, which has not been completed "+
		"on node %s", untrusted.Line(finished.Endpoint.To), untrusted.Line(found.Node)),
		"to complete it: kubeadm endpoint finish", "to return to both endpoints: kubeadm reconfigure undo")
}

// checkIssued is an error if this node's API server has no certificate yet for an endpoint that the cluster
// has already.
func checkIssued(ctx context.Context, e *engine.Env, now, after *node.Node) error {
	missing, err := FindSANChanges(ctx, e, now, after)
	if err == nil && len(missing) > 0 {
		err = problem.New(fmt.Errorf("the certificate of this node's API server is not that of the configuration, which "+
			"has the endpoint %s already", after.Cluster.Endpoint), "bring this node to it: kubeadm reconfigure apply")
	}
	return err
}

// findBefore returns the configuration that leads to where nodes connect before the change. It is not the stored
// one if that names the new endpoint already: a user has edited it, which notes whether there was none, or it
// has none, and this node has moved to the new endpoint's address.
func (f finder) findBefore(ctx context.Context, change *EndpointChange, stored config.StoredConfig,
	now *node.Node) (before config.StoredConfig, err error) {
	switch {
	case now.ServerURL() != change.To:
		return stored, nil
	case now.Cluster.Endpoint == "":
		return f.withEndpoint(stored, hostPort(change.From[0]))
	}
	others, err := f.otherControlPlanes(ctx)
	if err != nil {
		return before, err
	}
	old := hostPort(change.From[0])
	if change.Bare = change.From[0] == f.here.LocalServerURL() && len(others) == 0; change.Bare {
		old = ""
	}
	return f.withEndpoint(stored, old)
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
	for _, host := range c.hostsFrom() {
		if host != f.here.Address && !slices.Contains(n.Cluster.CertSANs, host) &&
			!slices.Contains(c.Added, host) {
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
	flags := config.ReconfigureFlags{RemoveCertSANs: c.Added}
	base, _, err := config.Reconfigure(config.File{}, flags, stored, f.here.BindPort)
	if err != nil {
		return q, c, err
	}
	flags = q.Flags
	if q.Edited != nil { // the editor has shown the names that the change has added
		flags.RemoveCertSANs = c.Added
	}
	own, _, err := config.Reconfigure(q.File, flags, base, f.here.BindPort)
	if err != nil {
		return q, c, err
	}
	now, err := f.complete(ctx, stored)
	if err != nil {
		return q, c, err
	}
	after, err := f.complete(ctx, own)
	if err != nil {
		return q, c, err
	}
	kept := *c
	kept.Added = nil
	for _, host := range append(slices.Clone(c.Added), c.hostsFrom()...) {
		isKept := slices.Contains(c.Added, host) || slices.Contains(now.Cluster.CertSANs, host)
		if isKept && !slices.Contains(after.Cluster.CertSANs, host) && !slices.Contains(kept.Added, host) {
			kept.Added = append(kept.Added, host)
		}
	}
	q.Flags.AddCertSANs = append(slices.Clone(q.Flags.AddCertSANs), kept.Added...)
	return q, &kept, nil
}

// resumeEndpoint goes on with a change of the endpoint as the cluster stores it.
func (f finder) resumeEndpoint(ctx context.Context, stored config.StoredConfig, found *State, host string) (w Wanted, err error) {
	if found.Stored != nil {
		own, err := f.isOwn(ctx, found, stored)
		if err == nil && !own { // there is nothing to resume
			err = explainBegun(found)
		}
		if err != nil {
			return w, err
		}
	}
	if found, err = f.rebase(ctx, stored, found); err != nil {
		return w, err
	}
	if found.Stored == nil {
		behind, err := f.listUncertified(ctx, host)
		if err == nil && len(behind) > 0 {
			err = problem.New(fmt.Errorf("these control plane nodes are not ready for %s:\n  %s", host,
				strings.Join(behind, "\n  ")), lostNodeHint, "otherwise take the change back: kubeadm reconfigure undo",
				"then begin again")
		}
		if err != nil {
			return w, err
		}
	}
	return f.find(ctx, stored, found, found)
}

// lostNodeHint is the remedy if a node is waited for that does not come back.
const lostNodeHint = "if one is permanently lost, delete its Node: kubectl delete node NAME"

// rebase returns a change as it goes on from what the cluster stores. That may have been edited before the change of
// the endpoint or since it was begun, as by an upgrade: such a change then leads there with its own endpoint. It is
// an error if another change has taken its place.
func (f finder) rebase(ctx context.Context, stored config.StoredConfig, s *State) (*State, error) {
	own, err := f.isOwn(ctx, s, stored)
	if err != nil || own {
		return s, err
	}
	now, err := f.complete(ctx, stored)
	if err != nil {
		return nil, err
	}
	before, err := f.complete(ctx, s.Before)
	if err != nil {
		return nil, err
	}
	after, err := f.complete(ctx, s.After)
	if err != nil {
		return nil, err
	}
	from, to, is := before.Cluster.Endpoint, after.Cluster.Endpoint, now.Cluster.Endpoint
	failed := f.explainForeignChange(ctx, s.After, stored)
	switch {
	case s.Stored != nil || s.Endpoint == nil || from == to:
		return nil, failed
	case is != from && is != to && (is != "" || !s.Endpoint.Bare):
		return nil, problem.New(failed, forgetHint())
	}
	flags := config.ReconfigureFlags{RemoveCertSANs: s.Endpoint.Added}
	if s.EndpointBefore != nil {
		flags.RemoveCertSANs = append(slices.Clone(flags.RemoveCertSANs), s.EndpointBefore.Added...)
	}
	base, _, err := config.Reconfigure(config.File{}, flags, stored, f.here.BindPort)
	if err != nil {
		return nil, err
	}
	again, c := *s, *s.Endpoint
	again.Endpoint = &c
	if again.Before, err = f.withEndpoint(base, from); err != nil {
		return nil, err
	}
	if again.After, err = f.withEndpoint(base, to); err != nil {
		return nil, err
	}
	again.After, err = f.keepNames(ctx, &c, again.After)
	return &again, err
}

// withEndpoint returns a configuration with another endpoint; an empty one is none.
func (f finder) withEndpoint(stored config.StoredConfig, endpoint string) (config.StoredConfig, error) {
	flags := config.ReconfigureFlags{Endpoint: endpoint, RemoveEndpoint: endpoint == ""}
	changed, _, err := config.Reconfigure(config.File{}, flags, stored, f.here.BindPort)
	return changed, err
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
	begun := found.EndpointState()
	if begun == nil {
		w.Done = true
		return w, nil
	}
	if begun.Stored == nil {
		return w, problem.New(fmt.Errorf("the change of the endpoint to %s has not been completed on node %s",
			untrusted.Line(begun.Endpoint.To), untrusted.Line(begun.Node)),
			untrusted.CommandHint("on that node", "kubeadm endpoint change", hostPort(begun.Endpoint.To)))
	}
	if err := begun.checkLeft(ctx, e, here.As); err != nil {
		return w, err
	}
	wanted, _, err := config.Reconfigure(config.File{}, config.ReconfigureFlags{RemoveCertSANs: begun.Endpoint.Added},
		stored, here.BindPort)
	if err != nil {
		return w, err
	}
	w.Host = node.HostOf(begun.Endpoint.To)
	w.Wanted, err = r.find(ctx, stored, New(here.Name, stored, wanted, e.World.Now()), found)
	return w, err
}

// checkLeft is an error if something may still use the previous endpoint.
func (s *State) checkLeft(ctx context.Context, e *engine.Env, as state.Identity) error {
	all, err := s.ReadProgress(ctx, e.Reader(), as)
	if err != nil {
		return err
	}
	if behind := append(ListBehind(all, true), ListBehind(all, false)...); len(behind) > 0 {
		return problem.New(fmt.Errorf("these nodes may still use the previous endpoint: %s",
			strings.Join(behind, ", ")), "on each of them: kubeadm reconfigure node", lostNodeHint)
	}
	proxy, err := readProxyServer(ctx, e, as)
	if err == nil && slices.Contains(s.Endpoint.Added, node.HostOf(proxy)) {
		err = problem.New(fmt.Errorf("ConfigMap kube-system/kube-proxy still has the previous endpoint, %s",
			untrusted.Line(proxy)), "change the server in its kubeconfig.conf, and restart the Pods that read it")
	}
	return err
}

// CheckClaim is an error if a change that is about to be stored relies on what has changed since it was found, while
// the user was asked or another command held the lock: all nodes have left the previous endpoint, or each API
// server has a certificate for the new one. found is the latest change in the cluster.
func (s *State) CheckClaim(ctx context.Context, e *engine.Env, here existing.Machine, found *State) error {
	if s.Stored != nil || s.Undoes != "" {
		return nil
	}
	if begun := found.Latest(); s.Endpoint == nil && begun.endpoint() != nil {
		return begun.checkLeft(ctx, e, here.As)
	}
	if s.Endpoint == nil || s.EndpointBefore != nil {
		return nil
	}
	behind, err := finder{e: e, here: here}.listUncertified(ctx, node.HostOf(s.Endpoint.To))
	if err == nil && len(behind) > 0 {
		err = problem.New(fmt.Errorf("these control plane nodes are not ready for %s any more:\n  %s",
			untrusted.Line(node.HostOf(s.Endpoint.To)), strings.Join(behind, "\n  ")), "run this command again")
	}
	return err
}

// endpoint is the change of the endpoint that is not finished; nil for none.
func (s *State) endpoint() *EndpointChange {
	if s == nil {
		return nil
	}
	return s.Endpoint
}

// EndpointState is the change that has the one of the endpoint that is not finished, also while the last step is
// being taken; nil for none.
func (s *State) EndpointState() *State {
	if s.endpoint() == nil {
		s = s.Latest()
	}
	if s.endpoint() == nil {
		return nil
	}
	return s
}

// hostsFrom are the hosts from before, other than the new one.
func (c *EndpointChange) hostsFrom() (hosts []string) {
	for _, server := range c.From {
		if host := node.HostOf(server); host != node.HostOf(c.To) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
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

// isSame reports whether they also add the same names to certificates.
func (c *EndpointChange) isSame(other *EndpointChange) bool {
	return c.isTo(other) && (c == nil || slices.Equal(slices.Sorted(slices.Values(c.Added)),
		slices.Sorted(slices.Values(other.Added))))
}

func explainBegun(found *State) error {
	begun := found.Endpoint
	err := fmt.Errorf("a change of the endpoint from %s to %s has not been finished", untrusted.Line(begun.From[0]),
		untrusted.Line(begun.To))
	if found.Stored == nil {
		return problem.New(err, untrusted.CommandHint("to complete it, on node "+untrusted.Line(found.Node),
			"kubeadm endpoint change", hostPort(begun.To)), "to take it back, on that node: kubeadm reconfigure undo",
			untrusted.CommandHint("if the node is permanently lost, delete its Node, then run either command on another one",
				"kubectl delete node", found.Node))
	}
	return problem.New(err, "see which nodes have not followed: kubeadm endpoint status",
		"to finish it: kubeadm endpoint finish")
}
