package reconfigure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
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
	moved, err := m.movedKubeconfigs(ctx, e)
	if err != nil {
		return err
	}
	if !m.movesCluster(e) && len(moved) == 0 && m.old.Kubeconfig == "" {
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

// moveKubeconfigs writes the new endpoint to the kubeconfigs of administrators, and to those of components that have the
// previous one, and restarts these.
func (m *machine) moveKubeconfigs(ctx context.Context, e *engine.Env) error {
	moved, err := m.movedKubeconfigs(ctx, e)
	if err != nil {
		return err
	}
	if len(moved) > 0 {
		for _, w := range moved {
			before, err := state.ReadRequired(ctx, e.World, w.Path)
			if err != nil {
				return err
			}
			m.old.Replaces(w.Path, before, w.Data)
		}
		if err := m.old.Store(ctx, e, m.Node); err != nil {
			return err
		}
	}
	for _, w := range moved {
		e.Say("writing the endpoint to %q", w.Path)
		if err := e.Do(ctx, w); err != nil {
			return err
		}
	}
	return m.restartClients(ctx, e)
}

// restoreKubeconfigs writes what they were before, if the cluster has not stored the new endpoint.
func (m *machine) restoreKubeconfigs(ctx context.Context, e *engine.Env) error {
	if !m.movesCluster(e) || m.endpointReached || len(m.old.Kubeconfigs) == 0 {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(m.old.Kubeconfigs)) {
		onDisk, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return err
		}
		if !m.old.HasWritten(onDisk) {
			continue // it was not changed, or by another program
		}
		before := []byte(m.old.Kubeconfigs[file])
		if err := e.Do(ctx, change.WriteFile{Path: file, Data: before, Mode: 0o600, Secret: true}); err != nil {
			return err
		}
	}
	return m.restartClients(ctx, e)
}

// restartClients restarts the components whose kubeconfigs the change replaces, which they read when they start: also one
// that an earlier run has not restarted.
func (m *machine) restartClients(ctx context.Context, e *engine.Env) error {
	if m.endpoint == nil && len(m.old.Kubeconfigs) == 0 {
		return nil
	}
	containers, err := e.World.Containers(ctx, m.CRISocket)
	if err != nil {
		return err
	}
	var components []string
	for _, component := range []string{release.ControllerManager, release.Scheduler} {
		file := m.Paths.Kubeconfig(strings.TrimPrefix(component, "kube-") + ".conf")
		info, err := e.World.Stat(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, isReplaced := m.old.Kubeconfigs[file]
		isOlder := slices.ContainsFunc(containers, func(c state.Container) bool {
			return c.Component == component && c.Name == component && c.Running && !c.Created.After(info.ModTime)
		})
		if !isReplaced && !isOlder {
			continue
		}
		if err := staticpod.SetOwners(ctx, e, m.Node, component); err != nil {
			return err
		}
		components = append(components, component)
	}
	return m.replacement(e).Restart(ctx, e, components...)
}

// movedKubeconfigs are the kubeconfigs of this control plane node that lead to a previous endpoint, as they will be:
// components use the API server beside them. That of the kubelet comes with its restart.
func (m *machine) movedKubeconfigs(ctx context.Context, e *engine.Env) (all []change.WriteFile, err error) {
	if m.endpoint == nil || m.Role != node.ControlPlane {
		return nil, nil
	}
	for _, p := range pki.KubeconfigProfiles() {
		file := m.Paths.Kubeconfig(p.File)
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return nil, err
		}
		if data == nil || file == m.Paths.KubeletKubeconfig() {
			continue
		}
		c := *m.endpoint
		if p.UsesLocalAPIServer {
			c.To = m.LocalServerURL()
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
