package reconfigure

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// ClusterInfo leads joining machines to the new endpoint, if the change is one of the endpoint.
var ClusterInfo = engine.Phase{
	Name:  "cluster-info",
	Short: "Lead joining machines to the endpoint",
	Run: func(ctx context.Context, e *engine.Env) error {
		change := reconfiguration.IntentOf(e).Change
		if change.Endpoint == nil || change.Stored != nil {
			return nil
		}
		as, err := e.Admin(ctx)
		if err != nil {
			return err
		}
		return e.Do(ctx, change.Endpoint.ClusterInfoChange(as))
	},
}

// moveKubelet notes the kubeconfig of this machine's kubelet with the new endpoint. That of a control plane
// node connects to the API server beside it, and stays.
func (m *machine) moveKubelet(e *engine.Env) error {
	if m.endpoint == nil {
		return nil
	}
	file, before := m.Paths.KubeletKubeconfig(), m.kubelet.Kubeconfig
	kubeconfig, err := pki.ParseKubeconfig(before)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	cluster, err := kubeconfig.CurrentCluster()
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	switch server := cluster.Server; {
	case server == m.endpoint.To, m.Role == node.ControlPlane && server == m.LocalServerURL():
		return nil
	case m.endpoint.LeavesFrom(server):
	case m.endpoint.Bare && !reconfiguration.IsLoopback(server):
		return problem.New(fmt.Errorf("the kubelet of this node connects to %s, which is neither the endpoint before the "+
			"change nor the new one: %s", untrusted.Line(server), file),
			"lead it to the endpoint: kubeadm endpoint follow", "then run this command again")
	default:
		e.Warn("the kubelet of this node stays with %s, which is neither the endpoint before the change nor the new "+
			"one: %s", untrusted.Line(server), file)
		return nil
	}
	moved, err := m.endpoint.MoveKubeconfig(before, file)
	if err != nil {
		return err
	}
	m.kubelet.Kubeconfig = moved
	if m.old.Kubeconfig == "" {
		m.old.Kubeconfig = string(before)
	}
	m.old.Expect(moved)
	return nil
}

// awaitEndpoint waits until the new endpoint leads to an API server, whose certificate has its name, from this
// machine.
func (m *machine) awaitEndpoint(ctx context.Context, e *engine.Env) error {
	if m.endpoint == nil {
		return nil
	}
	admins, err := m.movedAdmins(ctx, e, m.endpoint)
	if err != nil {
		return err
	}
	if !m.movesCluster(e) && len(admins) == 0 && m.old.Kubeconfig == "" {
		return nil // this machine has followed
	}
	as := m.as
	as.Server = m.endpoint.To
	failed := e.Await(ctx, world.Condition{
		Name: "the API server at " + untrusted.Line(as.Server), Timeout: m.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			_, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: m.Name, As: as})
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				return nil // it answers
			}
			return err
		},
	})
	if failed != nil && ctx.Err() == nil {
		failed = problem.New(failed, "make the endpoint reachable from this machine, and run the command again")
	}
	return failed
}

// movesCluster reports whether this node leads the cluster to another endpoint, rather than follow.
func (m *machine) movesCluster(e *engine.Env) bool {
	return m.endpoint != nil && reconfiguration.IntentOf(e).Change.Stored == nil &&
		m.before.Cluster.Endpoint != m.Cluster.Endpoint
}

// moveAdmins writes the new endpoint to the kubeconfigs of administrators.
func (m *machine) moveAdmins(ctx context.Context, e *engine.Env) error {
	return m.writeAdmins(ctx, e, m.endpoint)
}

// restoreAdmins returns to the previous endpoint if the cluster has not stored the new one.
func (m *machine) restoreAdmins(ctx context.Context, e *engine.Env) error {
	if !m.movesCluster(e) || m.endpointReached {
		return nil
	}
	return m.writeAdmins(ctx, e, m.endpoint.Reversed())
}

func (m *machine) writeAdmins(ctx context.Context, e *engine.Env, c *reconfiguration.EndpointChange) error {
	moved, err := m.movedAdmins(ctx, e, c)
	if err != nil {
		return err
	}
	for _, w := range moved {
		e.Say("writing the endpoint to %q", w.Path)
		if err := e.Do(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// movedAdmins are the kubeconfigs of administrators that lead to a previous endpoint, as they will be.
func (m *machine) movedAdmins(ctx context.Context, e *engine.Env, c *reconfiguration.EndpointChange) (all []change.WriteFile, err error) {
	if c == nil || m.Role != node.ControlPlane {
		return nil, nil
	}
	for _, name := range []string{"admin.conf", "super-admin.conf"} {
		file := m.Paths.Kubeconfig(name)
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil || data == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		moved, err := c.MoveKubeconfig(data, file)
		if err != nil {
			return nil, err
		}
		if string(moved) != string(data) {
			all = append(all, change.WriteFile{Path: file, Data: moved, Mode: 0o600, Secret: true})
		}
	}
	return all, nil
}

// checkUnused is an error if a kubeconfig of this control plane node has a host that the certificate of its API
// server is about to lose.
func (m *machine) checkUnused(ctx context.Context, e *engine.Env) error {
	if m.Role != node.ControlPlane {
		return nil
	}
	old, _, err := m.before.Site().SANs(pki.APIServerSANs)
	if err != nil {
		return err
	}
	wanted, _, err := m.Site().SANs(pki.APIServerSANs)
	if err != nil {
		return err
	}
	lost := strings.Split(old.Without(wanted).String(), ", ")
	for _, p := range pki.KubeconfigProfiles() {
		file := m.Paths.Kubeconfig(p.File)
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return err
		}
		kubeconfig, err := pki.ParseKubeconfig(data)
		if data == nil || err != nil {
			continue // what cannot be read connects to nothing
		}
		cluster, err := kubeconfig.CurrentCluster()
		if err != nil {
			continue
		}
		if u, err := url.Parse(cluster.Server); err == nil && u.Hostname() != "" && slices.Contains(lost, u.Hostname()) {
			return problem.New(fmt.Errorf("%s still connects to %s, which the certificate of the API server is about to lose",
				file, untrusted.Line(cluster.Server)), "set its server to "+m.LocalServerURL()+", restart what reads the file, "+
				"and run this command again")
		}
	}
	return nil
}
