package staticpod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Replacement replaces manifests of static Pods on this machine, as one change: at the end all
// components run by their new manifests, or all by the previous ones.
type Replacement struct {
	Node *node.Node
	As   state.Identity // with which kube-apiserver is asked whether it serves
	// Prepare, if set, is called before the manifest of a component is replaced, as for
	// certificates that the new Pod reads at its start. It is not called for a component that
	// stays as it is. What it does is not put back.
	Prepare func(ctx context.Context, component string) error
}

const (
	// stableTime is for how long the previous Pod must serve where the kubelet has not acted on
	// the new manifest yet: it may be about to.
	stableTime = 5 * time.Second
	// kubeletPeriod is longer than the 20 s after which the kubelet reads all manifests again,
	// should it have missed a change.
	kubeletPeriod = 30 * time.Second
)

// Replace replaces the manifests of components, one after the other in the given order, and
// returns those whose Pods it has replaced. A manifest that describes the same Pod as the present
// one is left alone. After each manifest it waits until its Pod runs and serves. If one does not,
// it puts back all manifests, newest first, and waits until their Pods serve; the error says what
// kept the new Pod from serving and that the previous ones are back. An etcd that serves by another
// image than before stays: the older one could not read its data.
//
// A run that was killed is completed by the next Replace of the same components, with the same
// manifests or others. All images are pulled before anything stops. The previous manifests are
// kept in a backup directory.
func (r Replacement) Replace(ctx context.Context, e *engine.Env,
	wanted ...Manifest) ([]string, error) {
	steps, err := r.plan(ctx, e, wanted)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return nil, health.WithKubeletHints(err)
	}
	if err := r.pullImages(ctx, e, steps); err != nil {
		return nil, err
	}
	var replaced []string
	for i, s := range steps {
		if err := r.replaceOne(ctx, e, s); err != nil {
			return nil, r.putBackAll(ctx, e, steps[:i+1], err)
		}
		if s.changesEtcdVersion() {
			s.final = true
			file := recordFile(r.Node.Paths, s.component)
			if err := e.Do(ctx, change.Remove{Path: file}); err != nil {
				return nil, r.putBackAll(ctx, e, steps[:i+1], err)
			}
		}
		if !s.stale {
			replaced = append(replaced, s.component)
		}
	}
	for _, s := range steps {
		if err := e.Do(ctx, change.Remove{Path: recordFile(r.Node.Paths,
			s.component)}); err != nil {
			return nil, err
		}
	}
	return replaced, PruneBackups(ctx, e, r.Node.Paths.Tmp(), ManifestBackup, mostBackups)
}

// step is the replacement of one component's manifest.
type step struct {
	component   string
	file        string // the manifest
	wanted      []byte
	wantedPod   *corev1.Pod
	previous    []byte // the last manifest that is known to have worked
	previousPod *corev1.Pod
	record      record
	// IDs of the component's containers before the manifest was written
	known   []string
	present []string // UIDs of the component's Pods before the manifest was written
	// an earlier run has written the wanted manifest, and it was not seen to serve
	written  bool
	goesBack bool // the wanted manifest is the one before that of an unfinished run
	served   bool // the component served by the previous manifest
	stale    bool // nothing is to be done but to remove the record
	final    bool // it is not put back any more
}

// changesEtcdVersion reports whether etcd runs from another image than before. Once a newer etcd
// serves, it has raised the version of its data, and the older one refuses them
// (docs/decisions/0042).
func (s *step) changesEtcdVersion() bool {
	return s.component == manifest.Etcd && !s.stale &&
		!slices.Equal(imagesOf(s.previousPod), imagesOf(s.wantedPod))
}

// pullImages makes sure that no Pod waits for an image once the one before it has ended.
func (r Replacement) pullImages(ctx context.Context, e *engine.Env, steps []*step) error {
	for _, s := range steps {
		if s.stale {
			continue
		}
		for _, ref := range imagesOf(s.wantedPod) {
			err := e.Do(ctx, change.PullImage{Socket: r.Node.CRISocket, Ref: ref})
			if err != nil {
				return fmt.Errorf("before replacing the static Pod of %s: %w", s.component, err)
			}
		}
	}
	return nil
}

// replaceOne writes the manifest of a component and waits for its Pod.
func (r Replacement) replaceOne(ctx context.Context, e *engine.Env, s *step) error {
	if s.stale {
		return nil
	}
	wait, err := health.StaticPod{
		Component: s.component, Pod: s.wantedPod, As: r.As, Known: s.knownBefore(),
		Accepts: func(c state.Container) bool {
			return !slices.Contains(s.uidsBefore(), c.PodUID)
		},
		SamePodAfter: samePodAfter(s.previousPod, s.wantedPod),
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	if err != nil {
		return err
	}
	if !s.written {
		e.Say("replacing the static Pod of %s; its previous manifest is kept in %q", s.component,
			s.record.Backup)
		// Both files are marked as secret, since a preview that shows them says nothing new.
		left := change.WriteFile{
			Path: recordFile(r.Node.Paths, s.component), Data: s.record.encode(), Mode: 0o600,
			Secret: true,
		}
		backup := change.WriteFile{Path: s.record.Backup, Data: s.previous, Mode: 0o600,
			Secret: true}
		if err := e.Do(ctx,
			change.MakeDir{Path: path.Dir(left.Path), Mode: 0o700}, left,
			change.MakeDir{Path: path.Dir(backup.Path), Mode: 0o700}, backup,
		); err != nil {
			return err
		}
		if r.Prepare != nil {
			if err := r.Prepare(ctx, s.component); err != nil {
				return err
			}
		}
		if err := e.Do(ctx, change.WriteFile{Path: s.file, Data: s.wanted,
			Mode: 0o600}); err != nil {
			return err
		}
	}
	return e.Await(ctx, wait)
}

// uidsBefore are the UIDs of Pods that are not the one of the wanted manifest.
func (s *step) uidsBefore() []string {
	switch {
	case s.written:
		return s.record.PodUIDs // those present now may well be of the wanted manifest
	case s.goesBack:
		return without(s.present, s.record.PodUIDs)
	}
	return slices.Concat(s.record.PodUIDs, s.present)
}

// knownBefore are the containers whose ends say nothing about the wanted manifest.
func (s *step) knownBefore() []string {
	if s.written {
		return nil
	}
	return s.known
}

func without(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all),
		func(one string) bool { return slices.Contains(these, one) })
}

// putBackAll puts back the previous manifests after a failure, newest first, and returns the error
// for the user.
func (r Replacement) putBackAll(ctx context.Context, e *engine.Env, steps []*step,
	cause error) error {
	ctx = context.WithoutCancel(ctx) // an interrupt, too, must leave a control plane that works
	failed := steps[len(steps)-1]
	var back []string
	var errs []error
	var stays string
	var brokenEtcd bool
	for _, s := range slices.Backward(steps) {
		if s.final {
			stays = "; etcd stays at its new version, as it may have changed its data"
			continue
		}
		changed, err := r.putBack(ctx, e, s)
		switch {
		case err != nil:
			brokenEtcd = brokenEtcd || s.component == manifest.Etcd
			errs = append(errs, fmt.Errorf("the previous static Pod of %s does not serve again: %w",
				s.component, err))
		case changed && s.served:
			back = append(back, s.component)
		case changed:
			back = append(back, s.component+" (which did not serve before either)")
		}
	}
	hints := failed.hints(cause)
	text := "nothing was changed"
	if len(back) > 0 {
		text = "the previous manifest is back and serves again for: " + strings.Join(back, ", ")
	}
	if len(errs) > 0 {
		hints = append(hints, "the previous manifests are in "+path.Dir(failed.record.Backup))
		text = errors.Join(errs...).Error()
	}
	snapshots, _ := listBackups(ctx, e, r.Node.Paths.Tmp(), EtcdBackup) // a help only
	if brokenEtcd && len(snapshots) > 0 {
		hints = append(hints,
			fmt.Sprintf("if etcd refuses its data, restore the last snapshot by the "+
				"documentation of etcd: etcdutl snapshot restore %s/%s",
				snapshots[len(snapshots)-1], snapshotFile))
	}
	return problem.New("replacing the static Pod of "+failed.component,
		fmt.Errorf("%w; %s%s", cause, text, stays), hints...)
}

// putBack puts back the previous manifest of a component and waits until its Pod serves. It
// reports whether the manifest had been changed.
func (r Replacement) putBack(ctx context.Context, e *engine.Env, s *step) (changed bool, err error) {
	now, err := state.ReadOptional(ctx, e.World, s.file)
	if err != nil {
		return true, err
	}
	if changed = !bytes.Equal(now, s.previous); changed {
		e.Say("putting back the previous manifest of %s", s.component)
		if err := e.Do(ctx, change.WriteFile{Path: s.file, Data: s.previous,
			Mode: 0o600}); err != nil {
			return true, err
		}
		if wait, err := r.waitForPrevious(ctx, e, s); err != nil {
			return true, err
		} else if s.served {
			if err := e.Await(ctx, wait); err != nil {
				return true, err
			}
		}
	}
	if s.stale {
		return changed, e.Do(ctx, change.Remove{Path: recordFile(r.Node.Paths, s.component)})
	}
	return changed, e.Do(ctx,
		change.Remove{Path: recordFile(r.Node.Paths, s.component)},
		change.Remove{Path: s.record.Backup}, // the same is in its place again
		change.Remove{Path: path.Dir(s.record.Backup), OnlyEmpty: true})
}

// waitForPrevious is the wait for the Pod of the previous manifest, which is on disk again.
func (r Replacement) waitForPrevious(ctx context.Context, e *engine.Env,
	s *step) (world.Condition, error) {
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return world.Condition{}, err
	}
	// UIDs of the Pods of other manifests; IDs of the previous Pod's containers
	var failed, known []string
	for _, c := range all {
		switch {
		case c.Component != s.component:
		case slices.Contains(s.record.PodUIDs, c.PodUID),
			len(s.record.PodUIDs) == 0 && slices.Contains(s.known, c.ID):
			known = append(known, c.ID)
		default:
			failed = append(failed, c.PodUID)
		}
	}
	pod := health.StaticPod{
		Component: s.component, Pod: s.previousPod, As: r.As, Known: known,
		Accepts: func(c state.Container) bool { return !slices.Contains(failed, c.PodUID) },
	}
	if len(failed) == 0 {
		pod.StableFor = stableTime
	}
	return pod.Condition(r.Node, r.Node.Timeouts.Upgrade)
}

// hints are the next steps after the failure of the wanted manifest.
func (s *step) hints(cause error) []string {
	field := map[string]string{
		"kube-apiserver":          "apiServer.extraArgs",
		"kube-controller-manager": "controllerManager.extraArgs",
		"kube-scheduler":          "scheduler.extraArgs", "etcd": "etcd.local.extraArgs",
	}[s.component]
	if arg := health.RejectedArgument(cause); arg != "" {
		return []string{fmt.Sprintf(
			"remove or correct %s in %s of the ClusterConfiguration, or in the patches of %s",
			arg, field, s.component)}
	}
	return []string{"if a container is missing, see why in the kubelet's log: journalctl -xeu kubelet"}
}
