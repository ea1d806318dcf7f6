package staticpod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// restoreAll restores the previous manifests after a failure, newest first, and returns the error
// for the user.
func (r Replacement) restoreAll(ctx context.Context, e *engine.Env, steps []*step,
	cause error) error {
	ctx = context.WithoutCancel(ctx) // an interrupt must leave a healthy control plane too
	failed := steps[len(steps)-1]
	if lost := clusterlock.Confirm(ctx, e); lost != nil {
		if !errors.Is(cause, clusterlock.ErrLost) {
			cause = fmt.Errorf("%w; %w", cause, lost)
		}
		return problem.During("replacing the static Pod of "+failed.component, fmt.Errorf(
			"%w; no manifest was restored, because another node may be changing the cluster", cause))
	}
	if isAnyAddressGone(ctx, e, steps) {
		return problem.During("replacing the static Pod of "+failed.component,
			fmt.Errorf("%w; no manifest was restored, because this machine no longer has the address in them", cause),
			append(failed.failureHints(cause), "re-run the command to resume")...)
	}
	var restored []string
	var errs []error
	var kept string
	var resumes, etcdFailed bool
	for _, s := range slices.Backward(steps) {
		// An etcd that has become healthy since, as when the user interrupts at that moment, has
		// changed its data.
		if s.changesEtcdVersion() && s.state != stepFinal && r.isWantedHealthy(ctx, e, s) {
			s.state = stepFinal
		}
		if s.state == stepFinal {
			kept = "; etcd keeps its new version, which may have changed its data"
			continue
		}
		if !r.mayRestore(ctx, e, s, cause) {
			// The record stays, so that the next run resumes.
			kept, resumes = "; etcd keeps its new version, which has not crashed repeatedly and may "+
				"have changed its data", true
			continue
		}
		changed, err := r.restore(ctx, e, s)
		switch {
		case err != nil:
			etcdFailed = etcdFailed || s.component == manifest.Etcd
			errs = append(errs, fmt.Errorf("restoring the previous static Pod of %s: %w",
				s.component, err))
		case changed && s.wasHealthy:
			restored = append(restored, s.component)
		case changed:
			restored = append(restored, s.component+" (not healthy before either)")
		}
	}
	hints := failed.failureHints(cause)
	text := "no manifest was restored"
	if !resumes && kept == "" {
		text = "no manifest was changed"
	}
	if len(restored) > 0 {
		text = "the previous static Pods were restored: " + strings.Join(restored, ", ")
	}
	if len(errs) > 0 {
		hints = append(hints, "find the previous manifests in "+path.Dir(failed.record.Backup))
		text = errors.Join(errs...).Error()
	}
	if resumes {
		hints = append(hints, "re-run the command to resume; it will wait for the new version of etcd")
	}
	if etcdFailed {
		hints = append(hints, r.snapshotHints(ctx, e)...)
	}
	return problem.During("replacing the static Pod of "+failed.component,
		fmt.Errorf("%w; %s%s", cause, text, kept), hints...)
}

// snapshotHints says how to restore etcd's last snapshot, if there is one.
func (r Replacement) snapshotHints(ctx context.Context, e *engine.Env) []string {
	snapshots, err := listBackups(ctx, e, r.Node.Paths.Tmp(), EtcdBackup)
	if err != nil || len(snapshots) == 0 {
		return nil
	}
	return []string{"if etcd rejects its data, restore the last snapshot: kubeadm etcd restore " +
		path.Join(snapshots[len(snapshots)-1], snapshotFile)}
}

// restore restores the previous manifest of a component and waits until its Pod is healthy. It
// reports whether the manifest had been changed.
func (r Replacement) restore(ctx context.Context, e *engine.Env,
	s *step) (changed bool, err error) {
	current, err := state.ReadOptional(ctx, e.World, s.file)
	if err != nil {
		return true, err
	}
	if changed = !bytes.Equal(current, s.previous); changed {
		e.Say("restoring the previous manifest of %s", s.component)
		if s.changesEtcdVersion() {
			s.record.Restored = true // if it does not start, the next run writes the new manifest again
			if err := e.Do(ctx, r.newRecordFile(s)); err != nil {
				return true, err
			}
		}
		if err := r.drainAPIServer(ctx, e, s); err != nil {
			e.Warn("requests in progress may be cut: %v", err)
		}
		if err := r.writeManifest(ctx, e, s, s.previous); err != nil {
			return true, err
		}
		if wait, err := r.newPreviousCondition(ctx, e, s); err != nil {
			return true, err
		} else if s.wasHealthy {
			if err := e.Await(ctx, wait); err != nil {
				return true, err
			}
		}
	}
	if s.state == stepRecordOnly {
		return changed, e.Do(ctx, change.Remove{Path: recordPath(r.Node.Paths, s.component)})
	}
	return changed, e.Do(ctx,
		change.Remove{Path: recordPath(r.Node.Paths, s.component)},
		change.Remove{Path: s.record.Backup}, // it equals the restored manifest
		change.Remove{Path: path.Dir(s.record.Backup), OnlyEmpty: true})
}

// newPreviousCondition returns the wait for the Pod of the restored manifest.
func (r Replacement) newPreviousCondition(ctx context.Context, e *engine.Env,
	s *step) (world.Condition, error) {
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return world.Condition{}, err
	}
	// UIDs of the Pods of other manifests; IDs of the previous Pod's containers
	var otherUIDs, previous []string
	for _, c := range all {
		switch {
		case c.Component != s.component:
		case slices.Contains(s.record.PodUIDs, c.PodUID),
			len(s.record.PodUIDs) == 0 && slices.Contains(s.containerIDs, c.ID):
			previous = append(previous, c.ID)
		default:
			otherUIDs = append(otherUIDs, c.PodUID)
		}
	}
	pod := health.StaticPod{
		Component: s.component, Pod: s.previousPod, As: r.As, Anonymous: r.anonymous,
		IgnoreExits: previous,
		Matches:     func(c state.Container) bool { return !slices.Contains(otherUIDs, c.PodUID) },
	}
	if len(otherUIDs) == 0 {
		pod.StableFor = stableTime
	}
	return pod.Condition(r.Node, r.Node.Timeouts.Upgrade)
}

// failureHints returns the next steps after the wanted manifest has failed.
func (s *step) failureHints(cause error) []string {
	field := map[string]string{
		"kube-apiserver":          "apiServer.extraArgs",
		"kube-controller-manager": "controllerManager.extraArgs",
		"kube-scheduler":          "scheduler.extraArgs", "etcd": "etcd.local.extraArgs",
	}[s.component]
	if arg := health.RejectedArgument(cause); arg != "" {
		return []string{fmt.Sprintf(
			"fix or remove %s in %s of the ClusterConfiguration, or in the patches of %s",
			arg, field, s.component)}
	}
	return []string{
		"if a container is missing, look for the reason in the kubelet's log: journalctl -xeu kubelet"}
}
