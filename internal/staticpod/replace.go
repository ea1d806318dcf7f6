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
	"kubeadm/internal/flow"
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
	// settleTime is for how long the previous Pod must serve where the kubelet has not acted on
	// the new manifest yet: it may be about to.
	settleTime = 5 * time.Second
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
func (r Replacement) Replace(ctx context.Context, e *flow.Env,
	wanted ...Manifest) ([]string, error) {
	steps, err := r.plan(ctx, e, wanted)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return nil, health.KubeletHelp(err)
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
	containers  []state.Container // of the component, before the manifest was written
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
// (docs/decisions/0041).
func (s *step) changesEtcdVersion() bool {
	return s.component == manifest.Etcd && !s.stale &&
		!slices.Equal(imagesOf(s.previousPod), imagesOf(s.wantedPod))
}

// plan finds out which manifests differ, and what unfinished runs have left. It changes nothing.
func (r Replacement) plan(ctx context.Context, e *flow.Env, wanted []Manifest) ([]*step, error) {
	var steps []*step
	for _, m := range wanted {
		s, err := r.planOne(ctx, e, m)
		if err != nil {
			return nil, fmt.Errorf("replacing the static Pod of %s: %w", m.Component, err)
		}
		if s == nil {
			e.Say("the static Pod of %s stays: its manifest is as it should be", m.Component)
			continue
		}
		steps = append(steps, s)
	}
	if len(steps) == 0 {
		return nil, nil
	}
	return steps, r.chooseBackups(ctx, e, steps)
}

// planOne returns nil if nothing is to be done.
func (r Replacement) planOne(ctx context.Context, e *flow.Env, m Manifest) (*step, error) {
	s := &step{component: m.Component, file: r.Node.Paths.Manifest(m.Component), wanted: m.Data}
	var err error
	if s.wantedPod, err = parsePod(m.Data); err != nil {
		return nil, fmt.Errorf("reading the new manifest: %w", err)
	}
	if s.previous, err = state.ReadRequired(ctx, e.World, s.file); err != nil {
		return nil, err
	}
	if s.previousPod, err = parsePod(s.previous); err != nil {
		return nil, problem.New("", fmt.Errorf("reading %s: %w", s.file, err),
			"correct the file, or copy a backup of it there: ls -d "+r.Node.Paths.Tmp()+"/"+
				string(ManifestBackup)+"*")
	}
	if err := r.lookAtContainers(ctx, e, s); err != nil {
		return nil, err
	}
	same, err := EqualManifests(s.previous, s.wanted)
	if err != nil {
		return nil, err
	}
	left, err := readRecord(ctx, e, r.Node.Paths, m.Component)
	if err != nil {
		return nil, err
	}
	if left != nil {
		if err := r.resume(ctx, e, s, left, same); err != nil {
			return nil, err
		}
	}
	switch {
	case left == nil && same:
		return nil, nil
	case same && !s.written:
		s.stale = true
		return s, nil
	case s.record.Previous == "":
		s.record.Previous = digest(s.previous)
		if s.record.PodUIDs == nil {
			s.record.PodUIDs = s.present
		}
		s.served = r.serves(ctx, e, s)
	}
	if d := digest(s.wanted); !slices.Contains(s.record.Written, d) {
		s.record.Written = append(s.record.Written, d)
	}
	return s, nil
}

// resume takes over what an unfinished run has left, if that run has written the manifest that is
// on disk now. The manifest before that one is then the one to go back to, unless the present one
// has come to serve since.
func (r Replacement) resume(ctx context.Context, e *flow.Env, s *step, left *record,
	same bool) error {
	if left.Previous == digest(s.previous) {
		return r.begin(ctx, e, s, left)
	}
	if !slices.Contains(left.Written, digest(s.previous)) {
		return nil
	}
	backup, err := state.ReadOptional(ctx, e.World, left.Backup)
	if err != nil {
		return err
	}
	pod, err := parsePod(backup)
	if err != nil || digest(backup) != left.Previous {
		e.Warn("the backup %s of an unfinished run is not what that run has written: it is ignored",
			left.Backup)
		return nil
	}
	if !same && r.serves(ctx, e, s) {
		return nil
	}
	e.Say("resuming the replacement of the static Pod of %s, which was not finished", s.component)
	s.previous, s.previousPod, s.record, s.written, s.served = backup, pod, *left, same, true
	s.goesBack, err = EqualManifests(s.previous, s.wanted)
	return err
}

// begin takes over what a run has left that was killed before it wrote a manifest, or after it put
// the previous one back. The kubelet may not have acted on the latter yet: a Pod that is there now
// is the previous one only if it is older than the record, or if the record says so.
func (r Replacement) begin(ctx context.Context, e *flow.Env, s *step, left *record) error {
	info, err := e.World.Stat(ctx, recordFile(r.Node.Paths, s.component))
	if err != nil {
		return err
	}
	s.record.Backup, s.record.PodUIDs = left.Backup, left.PodUIDs
	for _, c := range s.containers {
		if c.Created.Before(info.ModTime) && !slices.Contains(s.record.PodUIDs, c.PodUID) {
			s.record.PodUIDs = append(s.record.PodUIDs, c.PodUID)
		}
	}
	if slices.Contains(left.Written, digest(s.wanted)) {
		s.present = nil // apart from the previous Pod, it may well be that of the wanted manifest
	}
	return nil
}

// serves reports whether a component serves by the manifest that is on disk.
func (r Replacement) serves(ctx context.Context, e *flow.Env, s *step) bool {
	wait, err := health.StaticPod{
		Component: s.component, Pod: s.previousPod, As: r.As,
		Accepts: func(state.Container) bool { return true },
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	return err == nil && wait.Check(ctx, e.World) == nil
}

// lookAtContainers notes what the container runtime has of the component before anything is
// changed.
func (r Replacement) lookAtContainers(ctx context.Context, e *flow.Env, s *step) error {
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return err
	}
	var newest string
	for _, c := range all { // oldest first
		if c.Component != s.component {
			continue
		}
		s.containers = append(s.containers, c)
		s.known = append(s.known, c.ID)
		newest = c.PodUID
		if c.Running && !slices.Contains(s.present, c.PodUID) {
			s.present = append(s.present, c.PodUID)
		}
	}
	if len(s.present) == 0 && newest != "" {
		s.present = []string{newest} // it ends again and again
	}
	return nil
}

// chooseBackups says where the previous manifests go: all into one directory, that of an
// unfinished run if there is one. No other backup is overwritten.
func (r Replacement) chooseBackups(ctx context.Context, e *flow.Env, steps []*step) error {
	var unfinished string
	for _, s := range steps {
		if s.record.Backup != "" {
			unfinished = path.Dir(s.record.Backup)
		}
	}
	fresh, err := BackupDir(ctx, e, r.Node.Paths.Tmp(), ManifestBackup)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.record.Backup != "" || s.stale {
			continue
		}
		s.record.Backup = path.Join(fresh, path.Base(s.file))
		if unfinished == "" {
			continue
		}
		file := path.Join(unfinished, path.Base(s.file))
		there, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return err
		}
		if there == nil || bytes.Equal(there, s.previous) {
			s.record.Backup = file
		}
	}
	return nil
}

// pullImages makes sure that no Pod waits for an image once the one before it has ended.
func (r Replacement) pullImages(ctx context.Context, e *flow.Env, steps []*step) error {
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
func (r Replacement) replaceOne(ctx context.Context, e *flow.Env, s *step) error {
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
		if err := e.Do(ctx,
			change.MakeDir{Path: r.Node.Paths.Journal(), Mode: 0o700},
			change.WriteFile{Path: recordFile(r.Node.Paths, s.component), Data: s.record.encode(),
				Mode: 0o600},
			change.MakeDir{Path: path.Dir(s.record.Backup), Mode: 0o700},
			change.WriteFile{Path: s.record.Backup, Data: s.previous, Mode: 0o600},
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
func (r Replacement) putBackAll(ctx context.Context, e *flow.Env, steps []*step,
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
func (r Replacement) putBack(ctx context.Context, e *flow.Env, s *step) (changed bool, err error) {
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
func (r Replacement) waitForPrevious(ctx context.Context, e *flow.Env,
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
		pod.Settle = settleTime
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
