package health

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"kubeadm/internal/crashlog"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// crashWatch finds out how the containers of one component exit during one wait.
type crashWatch struct {
	socket, component string
	// requires is a component without which this one exits repeatedly through no fault of its own.
	requires string

	lookedAt time.Time
	absent   bool // the container runtime has no container of it
	// of the newest exit, as found at lookedAt; nil if there is none
	cause error
	// starts of each Pod before the wait, or before the Pod was first seen, by its UID. The kubelet goes
	// on counting when a static Pod gets a manifest that it had before.
	earlier map[string]uint32
	// IDs of the containers that had exited when the wait began; nil before the first look
	existed     map[string]struct{}
	lastCrashed state.Container // the last container that exited during the wait
	sameCrashes int             // how many in a row exited with the log lines of that one
}

const (
	lookInterval = time.Second
	// A component that exited this often within one wait will not start. The API server may exit a
	// few times while etcd's image is being pulled.
	maxCrashes = 5
	// One that exited this often with the same log lines will not start, if the component that it
	// requires runs.
	maxSameCrashes = 3
	// A component that has run for this long has recovered.
	recoveredAfter = time.Minute
	// shownLines is how many of the last lines are shown if none says why the component exited.
	shownLines = 3
)

// findCause returns why the component's container exited last: the exit code and the most
// informative log lines. It returns nil if none has failed, and gives up if a restart cannot help.
// It asks the container runtime at most once a second, and returns the same error in between.
func (w *crashWatch) findCause(ctx context.Context, r state.Reader) error {
	now := r.Now()
	if now.Sub(w.lookedAt) < lookInterval {
		return w.cause
	}
	w.lookedAt = now
	all, err := r.Containers(ctx, w.socket)
	if err != nil {
		return w.cause
	}
	containers := containersOf(all, w.component)
	w.absent = len(containers) == 0
	w.countEarlierStarts(containers)
	w.cause = nil
	crashed, found := w.findLastCrashed(containers, now)
	if !found {
		return nil
	}
	text := crashlog.Cause(crashed.Log, shownLines)
	w.cause = fmt.Errorf("container %s exited with code %d (start %d): %s", w.component,
		crashed.ExitCode, crashed.Attempt+1, text)
	if _, before := w.existed[crashed.ID]; before {
		return w.cause // the user may have fixed that by now
	}
	w.countSameCrashes(crashed, text)
	crashes := crashed.Attempt + 1 - w.earlier[crashed.PodUID]
	required := containersOf(all, w.requires)
	requiredRuns := w.requires == "" || len(required) > 0 && required[len(required)-1].Running
	switch {
	case crashlog.IsArgumentError(text), crashes >= maxCrashes:
		return world.Permanent(w.cause)
	case w.sameCrashes >= maxSameCrashes && requiredRuns:
		return world.Permanent(fmt.Errorf("%w; it has exited %d times with the same log lines",
			w.cause, w.sameCrashes))
	}
	return w.cause
}

// countEarlierStarts notes which starts are no matter of this wait. Containers are ordered, oldest first.
func (w *crashWatch) countEarlierStarts(containers []state.Container) {
	begins := w.existed == nil
	if begins {
		w.existed = map[string]struct{}{}
	}
	if w.earlier == nil {
		w.earlier = map[string]uint32{}
	}
	for _, c := range containers {
		if begins && !c.Running {
			w.existed[c.ID] = struct{}{}
		}
		before, seen := w.earlier[c.PodUID]
		switch _, existed := w.existed[c.ID]; {
		case existed:
			w.earlier[c.PodUID] = max(before, c.Attempt+1)
		case !seen, c.Attempt < before: // in the second case the kubelet counts from zero again
			w.earlier[c.PodUID] = c.Attempt
		}
	}
}

// findLastCrashed returns the container that failed last. If a newer one was started, it counts
// only if it exited during the wait, and only until the newer one has run for recoveredAfter.
func (w *crashWatch) findLastCrashed(containers []state.Container,
	now time.Time) (state.Container, bool) {
	if len(containers) == 0 {
		return state.Container{}, false
	}
	newest, older := containers[len(containers)-1], containers[:len(containers)-1]
	if hasFailed(newest) {
		return newest, true
	}
	if now.Sub(newest.Created) >= recoveredAfter {
		return state.Container{}, false
	}
	for _, c := range slices.Backward(older) {
		if _, before := w.existed[c.ID]; !before && hasFailed(c) {
			return c, true
		}
	}
	// The kubelet may have removed it since.
	return w.lastCrashed, w.lastCrashed.ID != "" && w.lastCrashed.Attempt < newest.Attempt
}

func hasFailed(c state.Container) bool { return !c.Running && c.ExitCode != 0 }

// countSameCrashes compares the log lines of a container that has exited with those of the one
// before.
func (w *crashWatch) countSameCrashes(ended state.Container, text string) {
	switch {
	case ended.ID == w.lastCrashed.ID:
		return
	case text != "" && withoutNumbers(text) == withoutNumbers(crashlog.Cause(w.lastCrashed.Log, shownLines)):
		w.sameCrashes++
	default:
		w.sameCrashes = 1
	}
	w.lastCrashed = ended
}

// withoutNumbers removes times, process IDs and addresses from a log line, so that the same line
// of another start is equal.
func withoutNumbers(line string) string {
	return regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`).ReplaceAllString(line, "#")
}

// containersOf returns the containers of a component's static Pod that run the component, oldest
// first.
func containersOf(all []state.Container, component string) []state.Container {
	return slices.DeleteFunc(slices.Clone(all), func(c state.Container) bool {
		return c.Component != component || c.Name != component
	})
}

// FailedComponents returns the components of this machine's control plane that have failed and are
// not restarted yet.
func FailedComponents(ctx context.Context, r state.Reader, n *node.Node) []string {
	all, err := r.Containers(ctx, n.CRISocket)
	if err != nil {
		return nil
	}
	var failed []string
	for _, component := range append(manifest.Components(), manifest.Etcd) {
		containers := containersOf(all, component)
		if len(containers) > 0 && hasFailed(containers[len(containers)-1]) {
			failed = append(failed, component)
		}
	}
	return failed
}
