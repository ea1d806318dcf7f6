package reconfiguration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// SecondHalf says when the rest of a change of feature gates follows.
const SecondHalf = "the feature gates of the other components change when you run the same command again, once all " +
	"nodes have followed this change"

// countNodes returns the number of nodes of the cluster, and of the control plane nodes among them.
func (f *finder) countNodes(ctx context.Context) (all, planes int, err error) {
	if err := f.listNodes(ctx); err != nil {
		return 0, 0, err
	}
	for _, u := range f.nodes {
		if _, is := u.GetLabels()[node.ControlPlaneLabel]; is {
			planes++
		}
	}
	return len(f.nodes), planes, nil
}

// listNodes lists the Nodes once for all that is found out about them: a large cluster has thousands.
func (f *finder) listNodes(ctx context.Context) (err error) {
	if f.nodes != nil {
		return nil
	}
	if f.nodes, err = listNodes(ctx, f.e.Reader(), f.here.As); err != nil {
		return fmt.Errorf("reading which nodes there are: %w", err)
	}
	return nil
}

// orderGates returns the first part of a change of feature gates if other nodes are concerned: all API servers
// have a gate before other components use it, and as long as they do. If the cluster stores that
// part, all nodes must have followed. A single API server is the first to get a gate anyway: only one that kubelets
// or kube-proxy of other nodes lose is ordered then.
func (f *finder) orderGates(ctx context.Context, q Request, stored, wanted config.StoredConfig,
	found *State) (config.StoredConfig, bool, error) {
	nodes, planes, err := f.countNodes(ctx)
	if err != nil || nodes < 2 {
		return wanted, false, err
	}
	n, err := f.complete(ctx, stored)
	if err != nil {
		return wanted, false, err
	}
	isOff := func(gate string) bool {
		for _, set := range gatesOf(n) {
			if on, isSet := set[gate]; isSet && !on {
				return true
			}
		}
		return false
	}
	flags, onNodes, err := q.Flags.FirstOfGates(n.Cluster.Version, isOff)
	if err != nil || planes < 2 && !onNodes {
		return wanted, false, err
	}
	first, _, err := config.Reconfigure(q.File, flags, stored, f.here.BindPort)
	if err != nil {
		return wanted, false, err
	}
	isDone, err := f.isSame(ctx, stored, wanted)
	if err != nil || isDone {
		return wanted, false, err
	}
	isWhole, err := f.isSame(ctx, first, wanted)
	if err != nil || isWhole {
		return wanted, false, err
	}
	if found != nil && found.Stored == nil { // an interrupted change goes on, whichever half it is
		isSecond, err := f.isSame(ctx, found.After, wanted)
		if err != nil || isSecond {
			return wanted, false, err
		}
	}
	isStored, err := f.isSame(ctx, first, stored)
	if err != nil || !isStored || found != nil && found.Stored == nil {
		return first, true, err
	}
	if found == nil { // the first part was there from the beginning
		return wanted, false, nil
	}
	isHere, err := f.checkAllFollowed(ctx, found,
		"then run this command again; to change a component all the same: --feature-gate COMPONENT:NAME=VALUE")
	if err == nil && !isHere {
		return first, true, nil
	}
	return wanted, false, err
}

// checkAllFollowed is an error if a node has not followed a change of feature gates, with a last hint. It returns whether
// this node has: a killed run may not have recorded that.
func (f *finder) checkAllFollowed(ctx context.Context, found *State, last string) (isHere bool, err error) {
	if err := f.listNodes(ctx); err != nil {
		return false, err
	}
	all := found.progressOf(f.nodes)
	if slices.ContainsFunc(all, func(n NodeProgress) bool { return n.Name == f.here.Name && !n.Done }) {
		return false, nil
	}
	if behind := append(ListBehind(all, true), ListBehind(all, false)...); len(behind) > 0 {
		return true, problem.New(fmt.Errorf("the feature gates cannot be changed everywhere yet: these nodes have not "+
			"followed the change before: %s", strings.Join(behind, ", ")), "on each of them: kubeadm reconfigure node", last)
	}
	return true, nil
}

// orderUndo lets an undo keep the gates of the API servers at first that other nodes use and lose too, as orderGates does.
// If no other node has anything of the change, none uses them.
func (f *finder) orderUndo(ctx context.Context, undo, found *State) error {
	if found.Stored == nil {
		return nil
	}
	if err := f.listNodes(ctx); err != nil {
		return err
	}
	isTouched := func(n NodeProgress) bool { return !n.Untouched && n.Name != f.here.Name }
	if !slices.ContainsFunc(found.progressOf(f.nodes), isTouched) {
		return nil
	}
	_, planes, err := f.countNodes(ctx)
	if err != nil {
		return err
	}
	before, err := f.complete(ctx, undo.Before)
	if err != nil {
		return err
	}
	after, err := f.complete(ctx, undo.After)
	if err != nil {
		return err
	}
	now, wanted := gatesOf(before), gatesOf(after)
	users := []string{release.Kubelet, release.Proxy}
	if planes > 1 {
		users = append(users, release.ControllerManager, release.Scheduler)
	}
	var lost []string
	for _, component := range users {
		lost = append(lost, gatesTurnedOff(now[component], wanted[component])...)
	}
	var keep config.ReconfigureFlags
	for _, gate := range gatesTurnedOff(now[release.APIServer], wanted[release.APIServer]) {
		if !slices.Contains(lost, gate) {
			continue
		}
		setting := release.APIServer + ":" + gate + "-" // it is on by default
		if now[release.APIServer][gate] {
			setting = release.APIServer + ":" + gate + "=true"
		}
		keep.FeatureGates = append(keep.FeatureGates, setting)
	}
	if len(keep.FeatureGates) == 0 {
		return nil
	}
	first, _, err := config.Reconfigure(config.File{}, keep, undo.After, f.here.BindPort)
	if err == nil {
		rest := undo.After
		undo.Rest, undo.After = &rest, first
	}
	return err
}

// continueUndo returns the last part of an undo, once all nodes have followed the first one.
func (f *finder) continueUndo(ctx context.Context, first *State) (*State, error) {
	isHere, err := f.checkAllFollowed(ctx, first, "then run this command again")
	if err != nil || !isHere {
		return first, err
	}
	last := New(f.here.Name, first.After, *first.Rest, f.e.World.Now())
	last.Undoes, last.Endpoint, last.Prepared = first.Undoes, first.Endpoint, first.Prepared
	return last, nil
}
