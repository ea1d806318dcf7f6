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
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// plan finds out which manifests differ, and what unfinished runs have left. It changes nothing.
func (r Replacement) plan(ctx context.Context, e *engine.Env, wanted []Manifest) ([]*step, error) {
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
		return nil, problem.New("", fmt.Errorf("reading %s: %w", s.file, err),
			"correct the file, or copy a backup of it there: ls -d "+r.Node.Paths.Tmp()+"/"+
				string(ManifestBackup)+"*")
	}
	same, err := EqualManifests(s.previous, s.wanted)
	if err != nil {
		return nil, err
	}
	left, err := readRecord(ctx, e, r.Node.Paths, m.Component)
	if err != nil {
		return nil, err
	}
	if left != nil && !same {
		if err := r.awaitKubelet(ctx, e, s); err != nil {
			return nil, err
		}
	}
	if err := r.lookAtContainers(ctx, e, s, left == nil); err != nil {
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
func (r Replacement) resume(ctx context.Context, e *engine.Env, s *step, left *record,
	same bool) error {
	if left.Previous == digest(s.previous) {
		// It was killed before it wrote a manifest, or after it put the previous one back.
		s.record.Backup, s.record.PodUIDs = left.Backup,
			slices.Concat(left.PodUIDs, without(s.present, left.PodUIDs))
		return nil
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

// serves reports whether a component serves by the manifest that is on disk.
func (r Replacement) serves(ctx context.Context, e *engine.Env, s *step) bool {
	wait, err := health.StaticPod{
		Component: s.component, Pod: s.previousPod, As: r.As,
		Accepts: func(state.Container) bool { return true },
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	return err == nil && wait.Check(ctx, e.World) == nil
}

// awaitKubelet waits until the kubelet has acted on the manifest that is on disk, where a run that
// was killed may have written it a moment ago: only then the container runtime says which Pod is
// that of this manifest.
func (r Replacement) awaitKubelet(ctx context.Context, e *engine.Env, s *step) error {
	var begun time.Time
	return e.Await(ctx, world.Condition{
		Name:    "the kubelet to read the manifest of " + s.component,
		Timeout: 3 * kubeletPeriod,
		Check: func(ctx context.Context, reader state.Reader) error {
			now := reader.Now()
			if begun.IsZero() {
				begun = now
			}
			info, err := reader.Stat(ctx, s.file)
			if err != nil {
				return err
			}
			// After a clock was set back, the file is of the future.
			if now.Sub(info.ModTime) >= kubeletPeriod || now.Sub(begun) >= kubeletPeriod {
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

// lookAtContainers notes what the container runtime has of the component before anything is
// changed. A Pod whose container has ended counts as the present one only if alsoEnded is set.
func (r Replacement) lookAtContainers(ctx context.Context, e *engine.Env, s *step,
	alsoEnded bool) error {
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return err
	}
	var newest string
	for _, c := range all { // oldest first
		if c.Component != s.component {
			continue
		}
		s.known = append(s.known, c.ID)
		newest = c.PodUID
		if c.Running && !slices.Contains(s.present, c.PodUID) {
			s.present = append(s.present, c.PodUID)
		}
	}
	if len(s.present) == 0 && newest != "" && alsoEnded {
		s.present = []string{newest} // it ends again and again
	}
	return nil
}

// chooseBackups says where the previous manifests go: all into one directory, that of an
// unfinished run if there is one. No other backup is overwritten.
func (r Replacement) chooseBackups(ctx context.Context, e *engine.Env, steps []*step) error {
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
