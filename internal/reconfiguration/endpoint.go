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

// EndpointWanted is a change of the endpoint that the user wants.
type EndpointWanted struct {
	Wanted
	// Host is the host of the new endpoint.
	Host string
	// Behind are the other control plane nodes whose API servers have no certificate for Host, each with the
	// reason. As long as there is one, the change is only that of certificates.
	Behind []string
	// Kept are hosts of the previous endpoint that the user lists in apiServer.certSANs, where they stay.
	Kept []string
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
	wanted, how, err := config.Reconfigure(config.File{}, config.ReconfigureFlags{Endpoint: endpoint}, stored, here.BindPort)
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
	w.Host = after.CertificateNames().ControlPlaneHost
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
	change, err := newEndpointChange(to, info, proxy, now)
	if err != nil {
		return w, err
	}
	if len(change.From) == 0 && now.Cluster.Endpoint == "" {
		e.Warn("%s is the address of this node: nodes that use it lose the cluster if this node is removed, unless the "+
			"address moves to another machine", untrusted.Line(w.Host))
		begins := r.newChange(nil, stored, wanted)
		begins.Prepared = found.prepared()
		w.Wanted, err = r.find(ctx, stored, begins, found)
		return w, err
	}
	if len(change.From) == 0 {
		if w.Done = true; proxy != "" && proxy != to {
			e.Warn("kube-proxy stays with %s, which is not the endpoint: ConfigMap kube-system/kube-proxy", untrusted.Line(proxy))
		}
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
	wanted, prepared, err := r.usePrepared(ctx, change, wanted, found)
	if err != nil {
		return w, err
	}
	begins := r.newChange(change, before, wanted)
	begins.Prepared = prepared
	w.Wanted, err = r.find(ctx, stored, begins, found)
	return w, err
}

// newEndpointChange is a change of the endpoint from where cluster-info and the configuration lead, if that is elsewhere.
func newEndpointChange(to, info, proxy string, now *node.Node) (c *EndpointChange, err error) {
	c = &EndpointChange{To: to, Bare: now.Cluster.Endpoint == "", From: otherServers(to, info, now.ServerURL())}
	if len(c.From) == 0 {
		c.From, err = findForgotten(to, proxy, now)
	}
	return c, err
}

// findForgotten returns the server of kube-proxy if that is the previous address of the only control plane node of a
// cluster without an endpoint, which has moved. Any other server is the user's own, such as a load balancer that only
// kube-proxy uses: certificates have its host by the configuration, or it is on each node.
func findForgotten(to, proxy string, now *node.Node) ([]string, error) {
	if now.Cluster.Endpoint != "" || proxy == "" || IsLoopback(proxy) {
		return nil, nil
	}
	if isOwn, err := isCertified(now, node.HostOf(proxy)); err != nil || isOwn {
		return nil, err
	}
	return otherServers(to, proxy), nil
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

// findBefore returns the configuration that leads nodes to where they connect before the change. That is the stored one,
// with the endpoint of cluster-info in two cases: a user has written the new endpoint into it already (without an endpoint
// if the cluster had none before that edit: change.Bare), or it has none and this node already has the address of the new one.
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
	added := slices.Clone(s.Endpoint.Added)
	if s.EndpointBefore != nil {
		added = append(added, s.EndpointBefore.Added...)
	}
	base, err := f.withoutNames(stored, added)
	if err != nil {
		return nil, err
	}
	again, c := *s, *s.Endpoint
	again.Endpoint = &c
	if again.Before, err = f.withEndpoint(base, from); err != nil {
		return nil, err
	}
	if base, err = f.withoutNames(base, c.Prepared); err != nil {
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

// newChange is a change that begins, and with it one of the endpoint; nil is none.
func (f finder) newChange(c *EndpointChange, before, after config.StoredConfig) *State {
	s := New(f.here.Name, before, after, f.e.World.Now())
	s.Endpoint = c
	return s
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
	wanted, err := r.withoutNames(stored, begun.Endpoint.Added)
	if err != nil {
		return w, err
	}
	w.Host = node.HostOf(begun.Endpoint.To)
	finish := r.newChange(nil, stored, wanted)
	finish.Prepared = found.prepared()
	if w.Wanted, err = r.find(ctx, stored, finish, found); err != nil {
		return w, err
	}
	if err := CheckUnused(ctx, e, w.Before, w.Node); err != nil {
		return w, err
	}
	for _, host := range begun.Endpoint.hostsFrom() {
		if node.HasHost(w.Node.Cluster.CertSANs, host) {
			w.Kept = append(w.Kept, host)
		}
	}
	return w, nil
}

// CheckClaim checks again, right before a change is stored, what was true when it was found: that all nodes have left the
// previous endpoint, or that each API server has a certificate for the new one. Meanwhile the user was asked, or another
// command held the lock. found is the latest change in the cluster.
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
