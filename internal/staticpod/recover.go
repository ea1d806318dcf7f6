package staticpod

import (
	"context"
	"slices"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// recoverTimeout is how long the API server of this node may take to answer after a run was killed.
const recoverTimeout = time.Minute

// Recover makes the API server of this node answer again where a killed run has left a manifest
// with which a component does not start: without the API server the run cannot be repeated. It
// restores the previous manifests that the run has recorded. Where no run was killed, or the API
// server answers, it changes nothing. Of Node only Local is needed.
func (r Replacement) Recover(ctx context.Context, e *engine.Env) error {
	left, err := r.listUnfinished(ctx, e)
	if err != nil || len(left) == 0 {
		return err
	}
	answers := world.Condition{
		Name:    "the API server at " + r.As.Server,
		Timeout: recoverTimeout,
		Check: func(ctx context.Context, reader state.Reader) error {
			return reader.Livez(ctx, r.As)
		},
	}
	if err := e.Await(ctx, answers); err == nil || ctx.Err() != nil {
		return err
	}
	for _, s := range slices.Backward(left) { // the last one that was written first
		if s.component == manifest.Etcd && r.etcdAnswers(ctx, e) {
			continue // the previous one might refuse its data (docs/decisions/0042)
		}
		e.Warn("the API server does not answer since an interrupted run: restoring the previous "+
			"manifest of %s", s.component)
		if err := r.writeManifest(ctx, e, s, s.previous); err != nil {
			return err
		}
		if err := e.Do(ctx, change.Remove{Path: recordPath(r.Node.Paths,
			s.component)}); err != nil {
			return err
		}
	}
	answers.Timeout = r.Node.Timeouts.Upgrade
	if err := e.Await(ctx, answers); err != nil {
		return problem.New("restoring the static Pods of an interrupted run", err,
			"find the previous manifests in "+r.Node.Paths.Tmp(),
			"read the log of the kubelet: journalctl -xeu kubelet")
	}
	return nil
}

// etcdAnswers reports whether the etcd member of this node answers.
func (r Replacement) etcdAnswers(ctx context.Context, e *engine.Env) bool {
	via := etcdcluster.LocalClient(r.Node.Paths, r.Node.ClientURL())
	via.Serializable = true
	_, err := e.World.Members(ctx, via)
	return err == nil
}

// listUnfinished returns the components whose manifest a killed run has replaced, in the order in
// which it replaced them.
func (r Replacement) listUnfinished(ctx context.Context, e *engine.Env) ([]*step, error) {
	var left []*step
	for _, component := range append([]string{manifest.Etcd}, manifest.Components()...) {
		record, err := readRecord(ctx, e, r.Node.Paths, component)
		if err != nil {
			return nil, err
		}
		if record == nil || record.Backup == "" {
			continue
		}
		file := r.Node.Paths.Manifest(component)
		current, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return nil, err
		}
		backup, err := state.ReadOptional(ctx, e.World, record.Backup)
		if err != nil {
			return nil, err
		}
		isOurs := slices.Contains(record.Written, digest(current))
		if isOurs && digest(backup) == record.Previous {
			left = append(left, &step{component: component, file: file, previous: backup,
				record: *record})
		}
	}
	return left, nil
}
