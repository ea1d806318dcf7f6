// Package reconfigure brings a node to a changed configuration of its cluster: certificates with other
// SANs, static Pods, and the kubelet. Either all of them run with the change, or the node runs as before.
// docs/decisions/0072 has the reasons.
package reconfigure

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// Claim stores a new change in the cluster before this node begins with it. It is an error if the
// configuration, or its latest change, is no longer what this command has read.
var Claim = engine.Phase{
	Name:  "claim",
	Short: "Record that the configuration is being changed",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		intent, read := reconfiguration.IntentOf(e), reconfiguration.Read
		if n.Role != node.ControlPlane {
			read = reconfiguration.ReadPublic
		}
		found, err := read(ctx, e.Reader(), as)
		if err != nil && !(n.Role != node.ControlPlane && apierrors.IsForbidden(err)) { // before the first change
			return err
		}
		if found != nil && found.ID != intent.Found && found.ID != intent.Change.ID {
			return problem.New(fmt.Errorf("another change of the configuration was begun on node %s meanwhile",
				untrusted.Line(found.Node)), "look at it: kubeadm reconfigure status", "then run this command again")
		}
		stored, err := existing.ReadStoredConfig(ctx, e.Reader(), as)
		if err != nil {
			return err
		}
		if n.Role == node.ControlPlane && stored != intent.Stored {
			return &problem.Problem{Stale: true, Hints: intent.StaleHints("run this command again"),
				Err: errors.New("the configuration that the cluster stores was changed meanwhile")}
		}
		switch {
		case found != nil && found.ID == intent.Change.ID && found.Stored != nil:
			intent.Change.Stored, intent.Change.Earlier = found.Stored, nil
		case found != nil && found.ID != intent.Change.ID && intent.Change.Stored != nil:
			// This node follows a change, and a later one, which is not complete, stays the latest.
			return reportBegin(ctx, e, n.Name, as)
		case found == nil || found.ID != intent.Change.ID: // it may have been stored or taken back meanwhile
			intent.Change.Earlier = found
		}
		if err := reportBegin(ctx, e, n.Name, as); err != nil || intent.Change.ID == "" || n.Role != node.ControlPlane {
			return err
		}
		here := existing.Machine{Local: n.Local, As: as}
		if err := intent.Change.CheckClaim(ctx, e, here, found); err != nil {
			return err
		}
		store, err := intent.Change.StoreChanges(as)
		if err != nil {
			return err
		}
		return e.Do(ctx, store...) // in their order
	},
}

// Unedited checks, before the cluster stores the change, that no other client has changed the configuration.
var Unedited = engine.Phase{
	Name:  "unedited",
	Short: "Check that the stored configuration was not changed meanwhile",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		return reconfiguration.CheckStored(ctx, e, existing.Machine{Local: n.Local, As: as})
	},
}

// Finish records that this node has the configuration, and on the first node that the cluster stores it.
var Finish = engine.Phase{
	Name:  "finish",
	Short: "Record that this node has the configuration",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		intent := reconfiguration.IntentOf(e)
		s, followed := intent.Change, false
		if s.Stored == nil && s.Forgets {
			return forget(ctx, e, n, as)
		}
		if s.Stored != nil && s.ID != "" {
			// Events expire: a run which finds that this node has followed creates none.
			if followed, err = s.ReportChange(n.Name, as).Done(ctx, e.Reader()); err != nil {
				return err
			}
		}
		if s.Stored == nil {
			if err := s.RecordNodes(ctx, e.Reader(), as); err != nil {
				return err
			}
			now := metav1.Time{Time: e.World.Now()}.Rfc3339Copy() // as it is stored
			s.Stored, s.Earlier, s.NotReady = &now, nil, nil
			store, err := s.StoreChanges(as)
			if err != nil {
				return err
			}
			if err := e.Do(ctx, store...); err != nil {
				return err
			}
		}
		if s.ID != "" && !followed {
			reconfiguration.ReportFollowed(ctx, e, n, as)
		}
		if s.ID != "" { // other nodes have to follow too
			if err := report(ctx, e, s.ReportChange(n.Name, as)); err != nil {
				return err
			}
		}
		return reconfiguration.RemoveRecord(ctx, e, n)
	},
}

// forget makes the change before the ones that the cluster has not stored the latest again. That is done last: what is
// killed before it resumes the same change.
func forget(ctx context.Context, e *engine.Env, n *node.Node, as state.Identity) error {
	intent := reconfiguration.IntentOf(e)
	reconfiguration.ReportTakenBack(ctx, e, n, as, intent.Cause)
	latest := intent.Change.Latest()
	if latest != nil {
		if err := report(ctx, e, latest.ReportChange(n.Name, as)); err != nil {
			return err
		}
	}
	if err := reconfiguration.RemoveRecord(ctx, e, n); err != nil {
		return err
	}
	store, err := latest.StoreChanges(as)
	if err != nil {
		return err
	}
	return e.Do(ctx, store...)
}

// reportBegin says in the Node of a machine that follows that it begins: from then on it may have a part of the change. The
// one on which the change was begun counts as having it anyway.
func reportBegin(ctx context.Context, e *engine.Env, name string, as state.Identity) error {
	s := reconfiguration.IntentOf(e).Change
	if s.ID == "" || s.Stored == nil || s.Node == name {
		return nil
	}
	u, err := e.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
	if apierrors.IsNotFound(err) {
		return nil // a kubelet that is restarted registers it again
	}
	if err != nil {
		return err
	}
	begin := s.ReportBegin(u, as)
	if begin == nil {
		return nil
	}
	return report(ctx, e, begin)
}

// report writes the Node. A kubelet may not do that in the moment in which a controller has changed the taints: that counts
// as changing them back.
func report(ctx context.Context, e *engine.Env, c change.Change) (err error) {
	const attempts = 5
	for range attempts {
		if err = e.Do(ctx, c); !apierrors.IsForbidden(err) {
			break
		}
	}
	return err
}

// Node brings this node to the configuration.
var Node = engine.Phase{
	Name:  "node",
	Short: "Bring this node to the configuration",
	Long: "Issue certificates with the wanted names, replace the static Pods whose manifests change, and restart " +
		"the kubelet if its configuration changes. If a component does not become healthy, all of them run as before.",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		m := &machine{Node: n, as: as, before: reconfiguration.IntentOf(e).Before}
		if err := m.prepare(ctx, e); err != nil {
			return err
		}
		if err := m.issueCertificates(ctx, e, false); err != nil {
			return err
		}
		steps, err := m.steps(ctx, e)
		if err != nil {
			return err
		}
		for _, change := range steps {
			err := change(ctx, e)
			if err == nil {
				continue
			}
			if ctx.Err() != nil {
				return err // the same command goes on
			}
			return m.takeBack(ctx, e, err)
		}
		if err := m.labelNode(ctx, e); err != nil {
			return err
		}
		if err := m.warnOfReaders(ctx, e); err != nil {
			return err
		}
		if err := reconfiguration.CheckUnused(ctx, e, m.before, m.Node); err != nil {
			return err
		}
		return m.issueCertificates(ctx, e, true)
	},
}

// machine is this node, and as whom it accesses its cluster.
type machine struct {
	*node.Node
	as     state.Identity
	before *node.Node              // by what the cluster stored before the change
	old    *reconfiguration.Record // what it ran before the change
	// what the change replaces it by: the configuration of the kubelet, and manifests by component
	kubelet reconfiguration.KubeletFiles
	pods    map[string][]byte
	// an earlier run was interrupted after it had begun to replace them
	interrupted bool
	endpoint    *reconfiguration.EndpointChange // nil if the endpoint stays
	gatesOff    bool                            // a feature gate is turned off
	keeps       bool                            // etcd is not taken back
	// the cluster, and so other machines, may have the new endpoint already
	endpointReached bool
}

// prepare reads what this node runs, and notes by what the change replaces it.
func (m *machine) prepare(ctx context.Context, e *engine.Env) (err error) {
	if m.old, err = reconfiguration.ReadRecord(ctx, e, m.Node); err != nil {
		return err
	}
	m.endpoint = reconfiguration.IntentOf(e).Change.Endpoint
	m.interrupted = m.old.IsStored
	if m.kubelet, err = reconfiguration.ReadKubeletFiles(ctx, e.World, m.Paths); err != nil {
		return err
	}
	if err := m.moveKubelet(e); err != nil || reconfiguration.IntentOf(e).OnlyEndpoint {
		return err
	}
	if err := kubeletfile.WriteMissingInstance(ctx, e, m.Node); err != nil {
		return err
	}
	if m.kubelet.Config, err = kubeletfile.RenderConfig(ctx, e, m.Node); err != nil {
		return err
	}
	if m.kubelet.Flags, err = reconfiguration.IntentOf(e).KubeletArgs.Edit(m.kubelet.Flags); err != nil {
		return fmt.Errorf("%s: %w", m.Paths.KubeletFlags(), err)
	}
	m.old.Expect(m.kubelet.Config)
	m.old.Expect(m.kubelet.Flags)
	if m.Role != node.ControlPlane {
		return nil
	}
	m.pods = map[string][]byte{}
	for _, component := range staticpod.Components(m.Node) {
		rendered, err := staticpod.RenderPresent(ctx, e, m.Node, component)
		if err != nil {
			return err
		}
		m.pods[component] = rendered.Data
		m.old.Expect(rendered.Data)
	}
	return nil
}

// steps change the parts of the node, in this order: the kubelet after the API server, but before it if a
// feature gate is turned off, or after an interrupted run, whose kubelet may not run.
func (m *machine) steps(ctx context.Context, e *engine.Env) ([]func(context.Context, *engine.Env) error, error) {
	type steps = []func(context.Context, *engine.Env) error
	if m.Role != node.ControlPlane {
		return steps{m.awaitEndpoint, m.changeKubelet}, nil
	}
	var err error
	if m.gatesOff, err = reconfiguration.TurnsGatesOff(ctx, e, m.Node); err != nil {
		return nil, err
	}
	if m.gatesOff || m.interrupted {
		return steps{m.awaitEndpoint, m.changeKubelet, m.replacePods, m.moveKubeconfigs}, nil
	}
	return steps{m.awaitEndpoint, m.replacePods, m.changeKubelet, m.moveKubeconfigs}, nil
}

// takeBack returns to what this node ran before, and returns the cause. The kubelet comes first, since static
// Pods need one that runs. Then the cluster forgets a change that it has not stored.
func (m *machine) takeBack(ctx context.Context, e *engine.Env, cause error) error {
	e.Say("taking the change back on this node: %v", cause)
	if m.movesCluster(e) {
		var err error
		if m.endpointReached, err = m.endpoint.HasReached(ctx, e, m.as); err != nil {
			m.endpointReached = true // the state is kept, from which the same command goes on
		}
	}
	change := reconfiguration.IntentOf(e).Change
	if change.Stored == nil && m.old.IsStored {
		m.old.TakesBack, m.old.Leaves = change.ID, "" // an undo after a kill forgets the change too
		if change.Earlier != nil {
			m.old.Leaves = change.Earlier.ID
		}
		if err := m.old.Store(ctx, e, m.Node); err != nil {
			e.Warn("it is not recorded that the change is taken back: %v", err)
		}
	}
	failed := m.restoreKubelet(ctx, e)
	if m.Role == node.ControlPlane {
		failed = errors.Join(failed, m.restorePods(ctx, e), m.restoreKubeconfigs(ctx, e))
	}
	if failed != nil {
		hint := "to try again, run the same command"
		if m.Role == node.ControlPlane {
			hint += "; to return to the configuration before: kubeadm reconfigure undo"
		}
		return problem.New(fmt.Errorf("%w; and taking it back failed: %w", cause, failed), hint)
	}
	defer reconfiguration.ReportTakenBack(ctx, e, m.Node, m.as, cause) // last: nothing depends on it
	kept := ""
	switch {
	case m.endpointReached:
		kept = "the cluster has the endpoint " + untrusted.Line(m.endpoint.To)
	case change.Stored == nil && change.Addons:
		kept = "CoreDNS or kube-proxy has the change"
	}
	if kept != "" {
		return problem.New(fmt.Errorf("%s already, but %w", kept, errors.Join(cause, reconfiguration.RemoveRecord(ctx, e, m.Node))),
			"to complete the change, run the same command", "to take it back: kubeadm reconfigure undo")
	}
	if change.Stored == nil { // before the record is removed, from which an undo knows this
		changes, err := change.Earlier.StoreChanges(m.as)
		if err == nil {
			err = e.Do(ctx, changes...)
		}
		failed = err
	}
	failed = errors.Join(failed, reconfiguration.RemoveRecord(ctx, e, m.Node))
	what := "the components of this node run as before"
	if m.keeps {
		what += ", except for etcd"
	}
	cause = fmt.Errorf("%s: %w", what, cause)
	if failed != nil {
		return errors.Join(cause, failed)
	}
	return &problem.Problem{Err: cause, Undone: true}
}
