package staticpod

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"

	corev1 "k8s.io/api/core/v1"
)

// plan finds the manifests that differ and the records of unfinished runs. It changes nothing.
func (r Replacement) plan(ctx context.Context, e *engine.Env, wanted []Manifest) ([]*step, error) {
	var steps []*step
	for _, m := range wanted {
		s, err := r.planOne(ctx, e, m)
		if err != nil {
			return nil, fmt.Errorf("replacing the static Pod of %s: %w", m.Component, err)
		}
		if s == nil {
			e.Say("the manifest of %s has not changed; keeping its static Pod", m.Component)
			continue
		}
		steps = append(steps, s)
	}
	if len(steps) == 0 {
		return nil, nil
	}
	return steps, r.chooseBackups(ctx, e, steps)
}

// planOne returns nil if there is nothing to do.
func (r Replacement) planOne(ctx context.Context, e *engine.Env, m Manifest) (*step, error) {
	s := &step{component: m.Component, file: r.Node.Paths.Manifest(m.Component), wanted: m.Data}
	var err error
	if s.wantedPod, err = parsePod(m.Data); err != nil {
		return nil, fmt.Errorf("reading the new manifest: %w", err)
	}
	if s.previous, err = state.ReadRequired(ctx, e.World, s.file); err != nil {
		return nil, err
	}
	if s.previousPod, err = parsePod(s.previous); err != nil {
		return nil, problem.New(fmt.Errorf("reading %s: %w", s.file, err),
			"fix the file, or restore it from a backup; list them: ls -d "+
				r.Node.Paths.Tmp()+"/"+string(ManifestBackup)+"*")
	}
	same, err := EqualManifests(s.previous, s.wanted)
	if err != nil {
		return nil, err
	}
	unfinished, err := readRecord(ctx, e, r.Node.Paths, m.Component)
	if err != nil {
		return nil, err
	}
	if unfinished != nil && !same {
		if err := r.awaitKubelet(ctx, e, s); err != nil {
			return nil, err
		}
	}
	if err := r.listContainers(ctx, e, s, unfinished == nil); err != nil {
		return nil, err
	}
	s.otherPodUIDs = s.podUIDs
	if unfinished != nil {
		if err := r.takeOver(ctx, e, s, unfinished, same); err != nil {
			return nil, err
		}
	}
	switch {
	case unfinished == nil && same:
		return nil, nil
	case same && s.state != stepWritten:
		s.state = stepRecordOnly
		return s, nil
	case s.record.Previous == "":
		s.record.Previous = digest(s.previous)
		if s.record.PodUIDs == nil {
			s.record.PodUIDs = s.podUIDs
		}
		s.wasHealthy = r.isHealthy(ctx, e, s)
	}
	if d := digest(s.wanted); !slices.Contains(s.record.Written, d) {
		s.record.Written = append(s.record.Written, d)
	}
	s.record.Wanted, s.record.Restored = string(s.wanted), false
	return s, nil
}

// takeOver takes over the record of an unfinished run if that run wrote the manifest on disk. The
// previous manifest is then the one before it, unless the component has become healthy since.
func (r Replacement) takeOver(ctx context.Context, e *engine.Env, s *step, unfinished *record,
	same bool) error {
	if unfinished.Previous == digest(s.previous) {
		// It was killed before it wrote a manifest, or after it restored the previous one.
		s.record.Backup = unfinished.Backup
		s.record.PodUIDs = slices.Concat(unfinished.PodUIDs,
			without(s.podUIDs, unfinished.PodUIDs))
		s.otherPodUIDs = s.record.PodUIDs
		return nil
	}
	if !slices.Contains(unfinished.Written, digest(s.previous)) {
		return nil
	}
	backup, err := state.ReadOptional(ctx, e.World, unfinished.Backup)
	if err != nil {
		return err
	}
	pod, err := parsePod(backup)
	if err != nil || digest(backup) != unfinished.Previous {
		e.Warn("ignoring the backup %s from an unfinished run: its contents have changed",
			unfinished.Backup)
		return nil
	}
	if !same && r.isHealthy(ctx, e, s) {
		return nil
	}
	e.Say("resuming the replacement of the static Pod of %s", s.component)
	s.previous, s.previousPod, s.record = backup, pod, *unfinished
	s.wasHealthy = true
	isRollback, err := EqualManifests(s.previous, s.wanted)
	switch {
	case same:
		s.state = stepWritten
		s.otherPodUIDs = s.record.PodUIDs // the Pods found now may be of the wanted manifest
	case isRollback:
		s.otherPodUIDs = without(s.podUIDs, s.record.PodUIDs)
	default:
		s.otherPodUIDs = slices.Concat(s.record.PodUIDs, s.podUIDs)
	}
	return err
}

// isHealthy reports whether a component is healthy with the manifest on disk.
func (r Replacement) isHealthy(ctx context.Context, e *engine.Env, s *step) bool {
	return r.isPodHealthy(ctx, e, s.component, s.previousPod,
		func(state.Container) bool { return true })
}

// isWantedHealthy reports whether a component is healthy with the wanted manifest.
func (r Replacement) isWantedHealthy(ctx context.Context, e *engine.Env, s *step) bool {
	return r.isPodHealthy(ctx, e, s.component, s.wantedPod,
		func(c state.Container) bool { return !slices.Contains(s.otherPodUIDs, c.PodUID) })
}

func (r Replacement) isPodHealthy(ctx context.Context, e *engine.Env, component string,
	pod *corev1.Pod, matches func(state.Container) bool) bool {
	wait, err := health.StaticPod{
		Component: component, Pod: pod, As: r.As, Anonymous: r.anonymous, Matches: matches,
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	return err == nil && wait.Check(ctx, e.World) == nil
}

// awaitKubelet waits until the kubelet has read the manifest on disk, which a killed run may have
// written a moment ago. Only then the newest Pod in the container runtime is that of this manifest.
func (r Replacement) awaitKubelet(ctx context.Context, e *engine.Env, s *step) error {
	var begun time.Time
	return e.Await(ctx, world.Condition{
		Name:    "the kubelet to read the manifest of " + s.component,
		Timeout: 3 * localkubelet.ManifestPeriod,
		Check: func(ctx context.Context, reader state.Reader) error {
			now := reader.Now()
			if begun.IsZero() {
				begun = now
			}
			info, err := reader.Stat(ctx, s.file)
			if err != nil {
				return err
			}
			// The second condition is for a clock that was set back.
			if now.Sub(info.ModTime) >= localkubelet.ManifestPeriod || now.Sub(begun) >= localkubelet.ManifestPeriod {
				return nil
			}
			all, err := reader.Containers(ctx, r.Node.CRISocket)
			for _, c := range all {
				if c.Component == s.component && c.Created.After(info.ModTime) {
					return nil
				}
			}
			return cmp.Or(err, errors.New("no container is newer than the manifest"))
		},
	})
}

// listContainers records the containers and Pods of the component before the first change. With
// alsoExited the newest Pod counts even if its container has exited.
func (r Replacement) listContainers(ctx context.Context, e *engine.Env, s *step,
	alsoExited bool) error {
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return err
	}
	var newest string
	for _, c := range all { // oldest first
		if c.Component != s.component {
			continue
		}
		s.containerIDs = append(s.containerIDs, c.ID)
		newest = c.PodUID
		if c.Running && !slices.Contains(s.podUIDs, c.PodUID) {
			s.podUIDs = append(s.podUIDs, c.PodUID)
		}
	}
	if len(s.podUIDs) == 0 && newest != "" && alsoExited {
		s.podUIDs = []string{newest} // it is in a crash loop
	}
	return nil
}

// chooseBackups sets the paths of the backups: all in one directory, that of an unfinished run if
// there is one. It does not overwrite other backups.
func (r Replacement) chooseBackups(ctx context.Context, e *engine.Env, steps []*step) error {
	var unfinished string
	for _, s := range steps {
		if s.record.Backup != "" {
			unfinished = path.Dir(s.record.Backup)
		}
	}
	newDir, err := BackupDir(ctx, e, r.Node.Paths.Tmp(), ManifestBackup)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.record.Backup != "" || s.state == stepRecordOnly {
			continue
		}
		s.record.Backup = path.Join(newDir, path.Base(s.file))
		if unfinished == "" {
			continue
		}
		file := path.Join(unfinished, path.Base(s.file))
		existing, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			return err
		}
		if existing == nil || bytes.Equal(existing, s.previous) {
			s.record.Backup = file
		}
	}
	return nil
}
