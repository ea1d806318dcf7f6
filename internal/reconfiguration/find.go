package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
)

// Request is what the user asks for. Without a file and flags it is the configuration that the cluster
// stores, to which this node is brought.
type Request struct {
	File  config.File
	Flags config.ReconfigureFlags
	// Base is the BaseOf what the cluster stored when the user began to edit it; empty if the file is the user's own.
	Base string
	// DNS are the settings of CoreDNS that the user wants.
	DNS DNSSettings
}

// Wanted is the change of the configuration that the user wants.
type Wanted struct {
	Intent
	Node *node.Node // this node by what the cluster is to store
	// Fields are those in which that differs from what the cluster stores now, and Effects what that means.
	Fields  []config.FieldChange
	Effects Effects
	// IsFirst is set if the same command is to be run again once all nodes have followed.
	IsFirst bool
}

// FindWanted resolves a request: a change that begins, or one that was interrupted and goes on, or one
// that is done.
func FindWanted(ctx context.Context, e *engine.Env, here existing.Machine, q Request) (w Wanted, err error) {
	r := finder{e: e, here: here, dns: q.DNS}
	stored, found, err := r.read(ctx)
	if err != nil {
		return w, err
	}
	wanted, how, err := config.Reconfigure(q.File, q.Flags, stored, here.BindPort)
	for _, text := range how.Warnings {
		e.Named("config").Warn("%s", text)
	}
	if err != nil {
		return w, err
	}
	latest := found.Latest().endpoint()
	if found != nil && found.Stored == nil && found.Endpoint != nil && !found.Endpoint.isTo(latest) {
		return w, explainBegun(found)
	}
	if latest != nil {
		if q, latest, err = r.keepBothNames(ctx, q, stored, latest); err != nil {
			return w, err
		}
		kept, _, err := config.Reconfigure(q.File, q.Flags, stored, here.BindPort)
		if err != nil {
			return w, err
		}
		if kept != wanted {
			e.Say("apiServer.certSANs keeps the previous endpoint until \"kubeadm endpoint finish\": %s",
				untrusted.Line(strings.Join(latest.Added, ", ")))
		}
		wanted = kept
	}
	isFirst := false
	if len(q.Flags.FeatureGates) > 0 {
		if wanted, isFirst, err = r.orderGates(ctx, q, stored, wanted, found); err != nil {
			return w, err
		}
	}
	if err := r.checkBase(ctx, q, stored, wanted, found); err != nil {
		return w, err
	}
	change := r.newChange(latest, stored, wanted)
	if change.Prepared, err = r.stillPrepared(ctx, q, stored, found); err != nil {
		return w, err
	}
	w, err = r.find(ctx, stored, change, found)
	if err == nil && w.Change == found && here.UploadCerts && found.Node == here.Name { // they are uploaded as they are now
		found.Files, err = preflight.ReadArgumentFiles(ctx, e.World, w.Node)
	}
	if w.IsFirst = isFirst; isFirst && err == nil {
		w.Effects.Later = append(w.Effects.Later, SecondHalf)
	}
	return w, err
}

// FindUndo returns the change that takes back the latest one. It is an error if the configuration was
// changed in another way since. One that the cluster has not stored yet is taken back where it was begun;
// one that is taken back already stays so. A take-back that was killed is completed first.
func FindUndo(ctx context.Context, e *engine.Env, here existing.Machine) (w Wanted, err error) {
	r := finder{e: e, here: here}
	stored, found, err := r.read(ctx)
	if err != nil {
		return w, err
	}
	forgotten, err := r.findForgotten(ctx, stored, found)
	switch {
	case err != nil:
		return w, err
	case forgotten != nil:
		return r.find(ctx, stored, forgotten, found)
	case found == nil:
		return w, problem.New(errors.New("the configuration of this cluster has not been changed by \"kubeadm reconfigure\""),
			"to change it: kubeadm reconfigure apply --config FILE")
	}
	if found.Stored == nil && found.Node != here.Name {
		_, err := e.Object(ctx, state.Ref{GVK: state.NodeKind, Name: found.Node, As: here.As})
		if err == nil {
			err = problem.New(fmt.Errorf("the latest change of the configuration has not been completed on node %s",
				untrusted.Line(found.Node)), "on that node: kubeadm reconfigure undo", untrusted.CommandHint(
				"if it is permanently lost, delete its Node, then run this command again", "kubectl delete node", found.Node))
		}
		if !apierrors.IsNotFound(err) {
			return w, err
		}
	}
	if found, err = r.rebase(ctx, stored, found); err != nil {
		return w, err
	}
	if found.Undoes != "" && (found.Stored == nil || found.Rest == nil) { // it was interrupted, or is done
		return markFirst(r.find(ctx, stored, found, found))
	}
	change := New(here.Name, found.After, found.Before, e.World.Now())
	change.Undoes, change.Endpoint, change.Prepared = found.ID, found.EndpointBefore, found.Prepared
	if found.Undoes != "" {
		change, err = r.continueUndo(ctx, found)
	} else if err = r.orderUndo(ctx, change, found); err == nil {
		change.Forgets, err = r.isBeingTakenBack(ctx, found)
	}
	if err != nil {
		return w, err
	}
	if change == found { // a killed run has not recorded that this node has it
		return markFirst(r.find(ctx, stored, found, found))
	}
	if r, err = r.undoEndpoint(ctx, change, found); err != nil {
		return w, err
	}
	return markFirst(r.find(ctx, stored, change, found))
}

// markFirst marks the first of two changes that together turn a feature gate off: the second one follows once all nodes have
// the first (docs/decisions/0082), and the effects say so.
func markFirst(w Wanted, err error) (Wanted, error) {
	if w.IsFirst = err == nil && w.Change.Rest != nil; w.IsFirst {
		w.Effects.Later = append(w.Effects.Later, SecondHalf)
	}
	return w, err
}

// FindStored returns the latest change that the cluster has stored, for another node to follow, and the
// arguments of this node's kubelet to change beside it. With them, there need not be a change.
func FindStored(ctx context.Context, e *engine.Env, here existing.Machine,
	args config.KubeletArgs) (w Wanted, err error) {
	r := finder{e: e, here: here}
	stored, err := existing.ReadStoredConfig(ctx, e.Reader(), here.As)
	if status := apierrors.APIStatus(nil); err != nil && here.Role != node.ControlPlane && !errors.As(err, &status) {
		err = problem.New(err, followHint)
	}
	if err != nil {
		return w, err
	}
	read := Read
	if here.Role != node.ControlPlane {
		read = ReadPublic
	}
	found, err := read(ctx, e.Reader(), here.As)
	// The Role that lets kubelets read the state exists since the first change.
	if err != nil && !apierrors.IsForbidden(err) {
		return w, err
	}
	w.Change, w.KubeletArgs = found.Latest(), args
	if w.Change == nil && len(args) > 0 {
		w.Change = &State{Stored: &metav1.Time{}, Before: stored}
	}
	if w.Change == nil {
		err := errors.New("the configuration of this cluster has not been changed by \"kubeadm reconfigure\"")
		if found != nil {
			err = fmt.Errorf("the change of the configuration that was begun on node %s has not been completed there",
				untrusted.Line(found.Node))
		}
		return w, problem.New(err, "on a control plane node first: kubeadm reconfigure apply")
	}
	if w.Stored = stored; found != nil {
		w.Found = found.ID
	}
	if w.Before, err = r.complete(ctx, w.Change.Before); err != nil {
		return w, err
	}
	if w.Node, err = r.complete(ctx, stored); err != nil {
		return w, err
	}
	w.Node.KubeletArgs = args.Set()
	return w, r.keepEtcd(ctx, &w.Before, &w.Node)
}

// keepEtcd sets the image tag of this node's etcd member, unless the configuration does: which etcd belongs to
// a version of Kubernetes is not the same for each kubeadm, and a newer one is for an upgrade. A tag that is
// no longer set leaves the member as it is.
func (f finder) keepEtcd(ctx context.Context, before, after **node.Node) error {
	local, _ := node.HasLocalEtcd(*after)
	if !local || (*after).Role != node.ControlPlane {
		return nil
	}
	var err error
	if *before, err = staticpod.WithEtcdImage(ctx, f.e, *before); err == nil {
		*after, err = staticpod.WithEtcdImage(ctx, f.e, *after)
	}
	return err
}

// finder reads what the cluster stores, as it concerns this node.
type finder struct {
	e    *engine.Env
	here existing.Machine
	dns  DNSSettings // that the user wants
	// nodes are the Nodes of the cluster; nil as long as they were not needed.
	nodes []unstructured.Unstructured
	// unreached is set where the endpoint that is taken back has not left this node.
	unreached bool
}

func (f finder) read(ctx context.Context) (stored config.StoredConfig, found *State, err error) {
	if stored, err = existing.ReadStoredConfig(ctx, f.e.Reader(), f.here.As); err != nil {
		return stored, nil, err
	}
	found, err = Read(ctx, f.e.Reader(), f.here.As)
	return stored, found, err
}

func (f finder) complete(ctx context.Context, stored config.StoredConfig) (*node.Node, error) {
	n, _, err := existing.Complete(ctx, f.e.World, f.here.Local, stored, release.Target{})
	return n, err
}

// isOwn reports whether the cluster stores what a change leads to. While it is being stored, single
// documents may be those from before.
func (f finder) isOwn(ctx context.Context, s *State, stored config.StoredConfig) (bool, error) {
	var all [3]node.Cluster
	for i, c := range []config.StoredConfig{stored, s.After, s.Before} {
		n, err := f.complete(ctx, c)
		if err != nil {
			return false, err
		}
		all[i] = n.Cluster
	}
	now, others := all[0], all[1:2]
	if s.Stored == nil {
		others = all[1:]
	}
	has := func(same func(c node.Cluster) bool) bool { return slices.ContainsFunc(others, same) }
	return has(func(c node.Cluster) bool { return c.Document == now.Document }) &&
		has(func(c node.Cluster) bool { return reflect.DeepEqual(c.Kubelet.Config, now.Kubelet.Config) }) &&
		has(func(c node.Cluster) bool { return reflect.DeepEqual(c.KubeProxy.Config, now.KubeProxy.Config) }), nil
}

// explainForeignChange is the error of an undo after the configuration was changed in another way.
func (f finder) explainForeignChange(ctx context.Context, a, b config.StoredConfig) error {
	before, err := f.complete(ctx, a)
	if err != nil {
		return err
	}
	after, err := f.complete(ctx, b)
	if err != nil {
		return err
	}
	fields, err := config.ListChanges(&before.Cluster, &after.Cluster)
	if err != nil {
		return err
	}
	var names []string
	for _, field := range fields {
		names = append(names, field.Kind+" "+untrusted.Line(field.Field))
	}
	return problem.New(fmt.Errorf("the configuration has been changed in another way since: %s",
		strings.Join(names, ", ")), "to change it: kubeadm reconfigure apply --config FILE")
}

// isSame reports whether two stored configurations are the same.
func (f finder) isSame(ctx context.Context, a, b config.StoredConfig) (bool, error) {
	before, err := f.complete(ctx, a)
	if err != nil {
		return false, err
	}
	after, err := f.complete(ctx, b)
	if err != nil {
		return false, err
	}
	return config.IsSame(&before.Cluster, &after.Cluster), nil
}

// find completes a change. It is the one that was found if that leads to the same configuration, and the
// cluster still stores that.
func (f finder) find(ctx context.Context, stored config.StoredConfig, change, found *State) (w Wanted, err error) {
	if err := f.addDNS(ctx, change, found); err != nil {
		return w, err
	}
	if found != nil && change != found {
		if change, err = f.goOnWith(ctx, stored, change, found); err != nil {
			return w, err
		}
	}
	if found != nil {
		w.Found = found.ID
	}
	w.Change, w.Stored = change, stored
	if w.Before, err = f.complete(ctx, change.Before); err != nil {
		return w, err
	}
	if w.Node, err = f.complete(ctx, change.After); err != nil {
		return w, err
	}
	if c := change.Endpoint; c != nil && w.Node.Cluster.Endpoint != "" && w.Node.ServerURL() != c.To {
		return w, problem.New(fmt.Errorf("the configuration has the endpoint %s, but a change to %s is not finished",
			untrusted.Line(w.Node.Cluster.Endpoint), untrusted.Line(c.To)), "look at it: kubeadm endpoint status")
	}
	now, err := f.complete(ctx, stored)
	if err != nil {
		return w, err
	}
	if w.Fields, err = config.ListChanges(&now.Cluster, &w.Node.Cluster); err != nil {
		return w, err
	}
	if change.Stored == nil {
		w.Fields = append(w.Fields, change.DNS.Fields()...)
	}
	after := w.Node
	if err := f.keepEtcd(ctx, &now, &after); err != nil {
		return w, err
	}
	if err := f.keepEtcd(ctx, &w.Before, &w.Node); err != nil {
		return w, err
	}
	if w.Effects, err = FindEffects(ctx, f.e, now, after); err != nil {
		return w, err
	}
	if w.Begun, err = f.listBegun(ctx, change.Earlier); err != nil {
		return w, err
	}
	if change.Stored == nil { // the cluster may store it before CoreDNS and kube-proxy have it
		if err := w.Effects.AddUnfinished(ctx, f.e, after, append(w.Begun, w.Before)...); err != nil {
			return w, err
		}
		w.Effects.CoreDNS = w.Effects.CoreDNS || change.DNS != nil
	}
	if change == found {
		return w, nil
	}
	if change.Files, err = preflight.ReadArgumentFiles(ctx, f.e.World, w.Node); err != nil {
		return w, err
	}
	// Nodes may lack what was changed in another way, or by a change that was not completed.
	finishesEndpoint := change.Endpoint == nil && change.EndpointBefore != nil
	isUnknown := len(w.Fields) == 0 && change.Undoes == "" && !finishesEndpoint
	if found != nil && change.Undoes == "" {
		own, err := f.isSame(ctx, found.After, stored)
		if err != nil {
			return w, err
		}
		isUnknown = isUnknown || !own
	}
	return w, f.addConcerned(ctx, w, isUnknown)
}

// goOnWith returns the change that was found instead of one that begins, if it leads to the same configuration and the
// cluster still stores that. Otherwise the one that begins replaces it.
func (f finder) goOnWith(ctx context.Context, stored config.StoredConfig, change, found *State) (*State, error) {
	same, err := f.isSame(ctx, found.After, change.After)
	if err == nil && same && found.Stored != nil {
		same, err = f.isSame(ctx, found.After, stored)
	}
	if err != nil {
		return change, err
	}
	change.EndpointBefore = found.Latest().endpoint()
	if same && change.Undoes == "" && change.Endpoint.isSame(found.Endpoint) &&
		hasSameNames(change.Prepared, found.Prepared) && change.hasDNSOf(found) {
		if found.DNS != nil && change.DNS != nil {
			found.DNS.present = change.DNS.present
		}
		return found, nil
	}
	if change.Earlier = found; found.Stored == nil && change.Undoes == "" {
		f.e.Warn("the change of the configuration that was begun on node %s at %s has not been completed, and "+
			"may still be running there; this one replaces it", untrusted.Line(found.Node),
			found.Started.UTC().Format(time.RFC3339))
	}
	return change, nil
}

// listBegun returns this node by a change that was not stored, and by those that it replaced in turn, as far as CoreDNS
// and kube-proxy may have them.
func (f finder) listBegun(ctx context.Context, s *State) (all []*node.Node, err error) {
	for ; s != nil && s.Stored == nil; s = s.Earlier {
		if !s.Addons {
			continue
		}
		begun, err := f.complete(ctx, s.After)
		if err != nil {
			return nil, err
		}
		all = append(all, begun)
	}
	return all, nil
}

// addConcerned says which nodes a new change concerns: also those that have not followed the one before.
func (f *finder) addConcerned(ctx context.Context, w Wanted, isUnknown bool) error {
	change := w.Change
	if earlier := change.Earlier.Latest(); earlier != nil {
		if err := f.listNodes(ctx); err != nil {
			return err
		}
		all := earlier.progressOf(f.nodes)
		change.ControlPlanes, change.Workers = len(ListBehind(all, true)) > 0, len(ListBehind(all, false)) > 0
	}
	change.Workers = change.Workers || isUnknown || w.Effects.Kubelet || change.Endpoint != nil && !f.unreached
	change.ControlPlanes = change.ControlPlanes || change.Workers ||
		len(w.Effects.Certificates)+len(w.Effects.Restarted) > 0
	return nil
}
