package staticpod

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Replacement replaces static Pods of this machine together: in the end all components run with
// their new manifests, or all with the previous ones.
type Replacement struct {
	Node *node.Node
	As   state.Identity // for requests to /livez of kube-apiserver
	// Prepare, if set, is called before the manifest of a component is replaced, for example to
	// renew certificates that the new Pod reads. It is not called for a component whose manifest
	// has not changed. Its changes are not undone.
	Prepare func(ctx context.Context, component string) error

	anonymous bool // kube-apiserver is asked without credentials
}

// stableTime is how long the previous Pod must stay healthy if there is no container of the new
// manifest yet: the kubelet may be about to start one.
const stableTime = 5 * time.Second

// Replace replaces the manifests of components, one after the other in the given order, and
// returns the components whose Pods it has replaced. It skips a manifest that describes the same
// Pod as the one on disk. After each manifest it waits until the Pod is running and healthy. If
// one is not, it restores all manifests, newest first, and waits until their Pods are healthy; the
// error has the cause and says what was restored. An etcd with another image is restored only if it
// crashes again and again before it was healthy: the previous version cannot read its data. Manifests with an
// address that this machine has no longer are not restored: the next run goes on.
//
// After a kill the next Replace of the same components completes the work, with the same manifests
// or others. All images are pulled before the first change. The previous manifests are kept in a
// backup directory.
func (r Replacement) Replace(ctx context.Context, e *engine.Env,
	wanted ...Manifest) ([]string, error) {
	steps, err := r.plan(ctx, e, wanted)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return nil, health.WithKubeletHints(e.Local.Platform, err)
	}
	if err := r.pullImages(ctx, e, steps); err != nil {
		return nil, err
	}
	var replaced []string
	for i, s := range steps {
		if err := r.replaceOne(ctx, e, s); err != nil {
			return nil, r.restoreAll(ctx, e, steps[:i+1], err)
		}
		if s.changesEtcdVersion() {
			s.state = stepFinal
			file := recordPath(r.Node.Paths, s.component)
			if err := e.Do(ctx, change.Remove{Path: file}); err != nil {
				return nil, r.restoreAll(ctx, e, steps[:i+1], err)
			}
		}
		if s.state != stepRecordOnly {
			replaced = append(replaced, s.component)
		}
	}
	for _, s := range steps {
		if err := e.Do(ctx, change.Remove{Path: recordPath(r.Node.Paths,
			s.component)}); err != nil {
			return nil, err
		}
	}
	return replaced, PruneBackups(ctx, e, r.Node.Paths.Tmp(), ManifestBackup, maxManifestBackups)
}

// step is the replacement of one component's manifest.
type step struct {
	component   string
	file        string // the manifest
	wanted      []byte
	wantedPod   *corev1.Pod
	previous    []byte // the last manifest whose Pod was healthy
	previousPod *corev1.Pod
	record      record
	// IDs of the component's containers and UIDs of its Pods before the manifest was written
	containerIDs, podUIDs []string
	otherPodUIDs          []string // UIDs of Pods of other manifests than the wanted one
	wasHealthy            bool     // the component was healthy with the previous manifest
	drained               bool     // the kube-apiserver beside it was stopped
	state                 stepState
}

// stepState is how far a step has come: from planned to written, and from there to healthy or
// unhealthy. An etcd of another version that was healthy at any time is final. A step that resumes an
// unfinished run begins as planned or written, by the manifest on disk, or has only a record to remove.
type stepState int

const (
	stepPlanned    stepState = iota // the wanted manifest is not on disk
	stepWritten                     // it is, and its Pod was not found healthy yet
	stepUnhealthy                   // its Pod was waited for, in vain
	stepHealthy                     // its Pod is healthy
	stepFinal                       // the previous manifest cannot be restored
	stepRecordOnly                  // the manifest is that of a finished step; its record is left
)

// changesEtcdVersion reports whether the image of etcd changes. Once a newer etcd serves requests,
// it raises the storage version, and an older one refuses the data (docs/decisions/0042).
func (s *step) changesEtcdVersion() bool {
	return s.component == manifest.Etcd && s.state != stepRecordOnly &&
		!slices.Equal(listImages(s.previousPod), listImages(s.wantedPod))
}

// pullImages pulls all images, so that no component is down while the kubelet pulls its image. The
// user may leave that to the kubelet.
func (r Replacement) pullImages(ctx context.Context, e *engine.Env, steps []*step) error {
	if r.Node.PullPolicy == corev1.PullNever {
		return nil
	}
	for _, s := range steps {
		if s.state == stepRecordOnly {
			continue
		}
		for _, ref := range listImages(s.wantedPod) {
			err := e.Do(ctx, change.PullImage{Socket: r.Node.CRISocket, Ref: ref})
			switch {
			case err == nil:
			case r.Node.IgnoredChecks.Has(preflight.ImagePull):
				e.Warn("pulling the images of %s: %v", s.component, err)
			default:
				return fmt.Errorf("pulling the images of %s: %w", s.component, err)
			}
		}
	}
	return nil
}

// replaceOne writes the manifest of a component and waits for its Pod.
func (r Replacement) replaceOne(ctx context.Context, e *engine.Env, s *step) error {
	if s.state == stepRecordOnly {
		return nil
	}
	ignored := s.containerIDs
	if s.state == stepWritten {
		ignored = nil // they may be of the wanted manifest
	}
	wait, err := health.StaticPod{
		Component: s.component, Pod: s.wantedPod, As: r.As, Anonymous: r.anonymous,
		IgnoreExits: ignored,
		Matches: func(c state.Container) bool {
			return !slices.Contains(s.otherPodUIDs, c.PodUID)
		},
		KeptPodAfter: maxKeptPodWait(s.previousPod, s.wantedPod),
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	if err != nil {
		return err
	}
	if s.state == stepWritten {
		if err := r.hurryKubelet(ctx, e, s, true); err != nil {
			return err
		}
	} else {
		e.Say("replacing the static Pod of %s; a backup of its manifest is in %q", s.component,
			s.record.Backup)
		record := r.newRecordFile(s)
		backup := change.WriteFile{Path: s.record.Backup, Data: s.previous, Mode: 0o600,
			Secret: true}
		if err := e.Do(ctx,
			change.MakeDir{Path: path.Dir(record.Path), Mode: 0o700}, record,
			change.MakeDir{Path: path.Dir(backup.Path), Mode: 0o700}, backup,
		); err != nil {
			return err
		}
		if r.Prepare != nil {
			if err := r.Prepare(ctx, s.component); err != nil {
				return err
			}
		}
		if err := r.drainAPIServer(ctx, e, s); err != nil {
			return err
		}
		if err := r.writeManifest(ctx, e, s, s.wanted); err != nil {
			return err
		}
		s.state = stepWritten
	}
	err = e.Await(ctx, wait)
	switch {
	case err == nil:
		s.state = stepHealthy
	case ctx.Err() == nil:
		s.state = stepUnhealthy
	}
	return err
}

// newRecordFile returns the record of a step as a file. Like the backup it is marked as secret so
// that a dry run does not print it: it tells the user nothing.
func (r Replacement) newRecordFile(s *step) change.WriteFile {
	return change.WriteFile{Path: recordPath(r.Node.Paths, s.component), Data: s.record.encode(),
		Mode: 0o600, Secret: true}
}

// writeManifest writes a manifest and makes the kubelet replace the Pod at once.
func (r Replacement) writeManifest(ctx context.Context, e *engine.Env, s *step,
	data []byte) error {
	if err := e.Do(ctx, change.WriteFile{Path: s.file, Data: data, Mode: 0o600}); err != nil {
		return err
	}
	return r.hurryKubelet(ctx, e, s, false)
}

// drainAPIServer stops the kube-apiserver beside an etcd that is about to be replaced, so that it
// answers the requests that it has while its etcd still does: the kubelet stops etcd as soon as its
// manifest changes.
func (r Replacement) drainAPIServer(ctx context.Context, e *engine.Env, s *step) error {
	if s.component != manifest.Etcd {
		return nil
	}
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(c state.Container) bool {
		return c.Component == release.APIServer && c.Running
	}) {
		return nil
	}
	pod, err := Read(ctx, e, r.Node, release.APIServer)
	if err != nil {
		return err
	}
	s.drained = true
	return e.Do(ctx, change.RemoveContainers{Socket: r.Node.CRISocket, Component: release.APIServer,
		GracePeriod: exitPeriod(pod)})
}

// hurryKubelet ends the Pod of the manifest that was replaced and restarts the kubelet. By itself a
// kubelet takes 15 to 45 s: it looks only every 10 s whether the previous Pod has ended, and it
// waits for an API server whose etcd is down (docs/decisions/0044). If this run is killed on the
// way, the kubelet replaces the Pod in its own time.
// A resumed run ends only Pods of the previous manifest.
func (r Replacement) hurryKubelet(ctx context.Context, e *engine.Env, s *step,
	isResumed bool) error {
	kubelet, err := e.World.Service(ctx, localkubelet.Service)
	if err != nil || !kubelet.Active {
		return nil // the user runs it by other means
	}
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return err
	}
	isPrevious := func(c state.Container) bool {
		return !isResumed || c.Component != s.component ||
			slices.Contains(s.record.PodUIDs, c.PodUID)
	}
	var removals []change.Change
	for _, component := range s.stops() {
		if component != s.component && s.drained {
			// The kubelet has just started it again. It accepts connections, but answers nothing without etcd.
			removals = append(removals, change.RemoveContainers{Socket: r.Node.CRISocket, Component: component})
			continue
		}
		if slices.ContainsFunc(all, func(c state.Container) bool {
			return c.Component == component && c.Running && isPrevious(c)
		}) {
			removals = append(removals, change.RemoveContainers{Socket: r.Node.CRISocket,
				Component: component, GracePeriod: exitPeriod(s.previousPod)})
		}
	}
	if slices.ContainsFunc(all, func(c state.Container) bool {
		return c.Component == s.component && c.Running && !isPrevious(c)
	}) {
		removals = nil // the Pod of the wanted manifest has begun
	}
	if err := e.DoAll(ctx, removals...); err != nil {
		return err
	}
	return e.Do(ctx, change.SetService{Name: localkubelet.Service, Active: true,
		Reads: []string{s.file}})
}

// stops are the components whose Pods end together with that of the step. An API server without its
// etcd answers only after its timeout, which keeps the kubelet from starting that etcd; one that is
// down does not.
func (s *step) stops() []string {
	if s.component == manifest.Etcd {
		return []string{manifest.Etcd, release.APIServer}
	}
	return []string{s.component}
}

// without returns the items of all that are not in excluded.
func without(all, excluded []string) []string {
	return slices.DeleteFunc(slices.Clone(all),
		func(item string) bool { return slices.Contains(excluded, item) })
}
