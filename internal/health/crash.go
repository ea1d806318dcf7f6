package health

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// crashWatch looks at how the containers of one component end during one wait.
type crashWatch struct {
	socket, component string
	// requires is a component without which this one ends again and again through no fault of its own.
	requires string

	lookedAt time.Time
	absent   bool                // the container runtime has no container of it at all
	cause    error               // of the newest end, as found by the last look; nil if there is none
	attempt  uint32              // of the container that was the newest when the wait began
	existed  map[string]struct{} // IDs of the containers that were there when the wait began; nil before the first look
	ended    state.Container     // the last container that ended during the wait
	sameEnds int                 // how many in a row ended with the log lines of that one
}

const (
	lookEvery = time.Second
	// A component that ended this often within one wait will not come up by another start. The API server
	// may well end a few times while etcd's image is still on its way.
	hopelessEnds = 5
	// One that ended this often with the same log lines will not either, as long as what it requires runs.
	hopelessSameEnds = 3
	// What ran for this long since the last end has overcome its cause.
	recoveredAfter = time.Minute
)

// look returns why the component's container ended last: with what exit code, and the log lines that tell
// most. It returns nil if none has ended badly, and gives up where another start cannot help. It asks the
// container runtime at most once a second; in between the answer stays the same.
func (w *crashWatch) look(ctx context.Context, r state.Reader) error {
	now := r.Now()
	if now.Sub(w.lookedAt) < lookEvery {
		return w.cause
	}
	w.lookedAt = now
	all, err := r.Containers(ctx, w.socket)
	if err != nil {
		return w.cause
	}
	own := containersOf(all, w.component)
	w.absent = len(own) == 0
	if w.existed == nil {
		w.remember(own)
	}
	w.cause = nil
	ended, found := w.lastEnded(own, now)
	if !found {
		return nil
	}
	text := crashLines(ended.Log)
	w.cause = fmt.Errorf("container %s ended with exit code %d (start %d): %s", w.component, ended.ExitCode, ended.Attempt+1, text)
	if _, before := w.existed[ended.ID]; before {
		return w.cause // what it died of may be fixed by now
	}
	w.count(ended, text)
	switch {
	case badArguments(text), w.endsOf(ended) >= hopelessEnds:
		return world.GiveUp(w.cause)
	case w.sameEnds >= hopelessSameEnds && (w.requires == "" || runs(all, w.requires)):
		return world.GiveUp(fmt.Errorf("%w; it has ended %d times with the same log lines", w.cause, w.sameEnds))
	}
	return w.cause
}

// remember notes the containers of the component that are there when the wait begins.
func (w *crashWatch) remember(own []state.Container) {
	w.existed = map[string]struct{}{}
	for _, c := range own {
		if !c.Running {
			w.existed[c.ID] = struct{}{}
		}
		w.attempt = c.Attempt + 1
		if c.Running {
			w.attempt = c.Attempt
		}
	}
}

// lastEnded returns the container that ended badly last. Where a newer one was started, it counts only if it
// ended during the wait, and until the newer one has lived for a while.
func (w *crashWatch) lastEnded(own []state.Container, now time.Time) (state.Container, bool) {
	if len(own) == 0 {
		return state.Container{}, false
	}
	newest, older := own[len(own)-1], own[:len(own)-1]
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
	return w.ended, w.ended.ID != "" && w.ended.Attempt < newest.Attempt
}

func hasFailed(c state.Container) bool { return !c.Running && c.ExitCode != 0 }

// count compares the log lines of a container that has ended with those of the one before.
func (w *crashWatch) count(ended state.Container, text string) {
	switch {
	case ended.ID == w.ended.ID:
		return
	case text != "" && withoutNumbers(text) == withoutNumbers(crashLines(w.ended.Log)):
		w.sameEnds++
	default:
		w.sameEnds = 1
	}
	w.ended = ended
}

// withoutNumbers takes times, process IDs and addresses out of a log line, so that the same line of
// another start is equal.
func withoutNumbers(line string) string {
	return regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`).ReplaceAllString(line, "#")
}

// endsOf returns how often the component has ended since the wait began.
func (w *crashWatch) endsOf(ended state.Container) uint32 {
	if w.attempt > ended.Attempt { // a new Pod counts from the beginning
		return ended.Attempt + 1
	}
	return ended.Attempt + 1 - w.attempt
}

// containersOf returns the containers of a component's static Pod that run the component, oldest first.
func containersOf(all []state.Container, component string) []state.Container {
	return slices.DeleteFunc(slices.Clone(all), func(c state.Container) bool {
		return c.Component != component || c.Name != component
	})
}

// runs reports whether the newest container of the component runs.
func runs(all []state.Container, component string) bool {
	own := containersOf(all, component)
	return len(own) > 0 && own[len(own)-1].Running
}

// Failed names the components of this machine's control plane that ended badly and were not started again yet.
func Failed(ctx context.Context, r state.Reader, n *node.Node) []string {
	all, err := r.Containers(ctx, n.CRISocket)
	if err != nil {
		return nil
	}
	var failed []string
	for _, component := range append(manifest.Components(), manifest.Etcd) {
		own := containersOf(all, component)
		if len(own) > 0 && hasFailed(own[len(own)-1]) {
			failed = append(failed, component)
		}
	}
	return failed
}

// badArguments reports whether a component refused its own command line: each start ends the same way.
func badArguments(text string) bool {
	return slices.ContainsFunc([]string{"unknown flag", "unknown shorthand flag", "invalid argument", "flag provided but not defined", "bad flag syntax", "for flag -"},
		func(sign string) bool { return strings.Contains(text, sign) })
}

// crashLines returns the line with which a component's log says why it ended, else the last three lines, quoted
// and cut. The first such line is it: those of a panic that follow tell where and no longer why.
func crashLines(log string) string {
	for line := range strings.Lines(log) {
		if isCrashLine(line) {
			return untrusted.Quote(line)
		}
	}
	return lastLines(log, 3)
}

// isCrashLine reports whether a line is the last thing that klog, zap, a flag library or Go's runtime writes.
func isCrashLine(line string) bool {
	fatal := regexp.MustCompile(`^F\d{4} \d\d:`) // the header of klog's
	return badArguments(line) || fatal.MatchString(line) ||
		slices.ContainsFunc([]string{`"command failed"`, `"level":"fatal"`, `"level":"panic"`, "panic: "},
			func(sign string) bool { return strings.Contains(line, sign) })
}

// lastLines returns the last n lines of a log, each quoted and cut.
func lastLines(log string, n int) string {
	log = strings.TrimSpace(log)
	if log == "" {
		return ""
	}
	lines := strings.Split(log, "\n")
	lines = lines[max(0, len(lines)-n):]
	for i := range lines {
		lines[i] = untrusted.Quote(lines[i])
	}
	return strings.Join(lines, ", ")
}
