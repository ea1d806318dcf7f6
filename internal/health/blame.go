package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/world"
)

// blame finds out why a component does not answer: it looks at how its containers ended.
type blame struct {
	socket, component string
	looked            time.Time
	found             error            // by the last look; a wait may end before the next one
	before            change.Container // had ended when the wait began; what it died of may be mended by now
}

const (
	lookEvery = time.Second
	// A component that ended this often within one wait will not come up by being started once
	// more. The API server may well end a few times while etcd's image is still on its way.
	hopelessEnds = 5
)

// explain adds to err what the component's last container said before it ended, and gives
// up where starting it again cannot help.
func (b *blame) explain(ctx context.Context, r change.Reader, err error) error {
	if err == nil {
		return nil
	}
	first := b.looked.IsZero()
	if r.Now().Sub(b.looked) < lookEvery {
		return cmp.Or(b.found, err)
	}
	b.looked, b.found = r.Now(), nil
	last, found := b.lastEnded(ctx, r)
	if !found {
		return err
	}
	if first {
		b.before = last
	}
	said := reason(last.Log)
	err = fmt.Errorf("container %s ended with exit code %d (start %d): %s", b.component, last.ExitCode, last.Attempt+1, said)
	if last.ID != b.before.ID && (b.ends(last) >= hopelessEnds || badArguments(said)) {
		return world.GiveUp(err)
	}
	b.found = err
	return err
}

// ends counts how often the component has ended since the wait began.
func (b *blame) ends(last change.Container) uint32 {
	if b.before.ID == "" || b.before.Attempt > last.Attempt { // a new Pod counts from the beginning
		return last.Attempt + 1
	}
	return last.Attempt - b.before.Attempt
}

// lastEnded is the newest container of the component, if that one has ended badly.
func (b *blame) lastEnded(ctx context.Context, r change.Reader) (change.Container, bool) {
	all, err := r.Containers(ctx, b.socket)
	if err != nil {
		return change.Container{}, false
	}
	for _, c := range slices.Backward(all) {
		if c.Component == b.component && c.Name == b.component {
			return c, !c.Running && c.ExitCode != 0
		}
	}
	return change.Container{}, false
}

// Failed names the components of this machine's control plane that ended badly and were not started again yet.
func Failed(ctx context.Context, r change.Reader, n *node.Node) []string {
	var failed []string
	for _, component := range append(manifest.Components(), manifest.Etcd) {
		b := blame{socket: n.CRISocket, component: component}
		if _, ended := b.lastEnded(ctx, r); ended {
			failed = append(failed, component)
		}
	}
	return failed
}

// badArguments tells whether a component refused its own command line: it will do so for ever.
func badArguments(said string) bool {
	return slices.ContainsFunc([]string{"unknown flag", "unknown shorthand flag", "invalid argument", "flag provided but not defined", "bad flag syntax", "for flag -"},
		func(sign string) bool { return strings.Contains(said, sign) })
}

// reason is the line with which a component's log says why it ended, else the last three lines.
// The first such line is it: those of a panic that follow tell where and no longer why.
func reason(log string) string {
	const limit = 500
	for line := range strings.Lines(log) {
		if saysWhy(line) {
			line = strings.TrimSpace(line)
			return line[:min(len(line), limit)]
		}
	}
	return lastLines(log, 3)
}

// saysWhy tells whether a line is the last thing that klog, zap, a flag library or Go's runtime writes.
func saysWhy(line string) bool {
	return badArguments(line) || slices.ContainsFunc([]string{`"command failed"`, `"level":"fatal"`, `"level":"panic"`, "panic: "},
		func(sign string) bool { return strings.Contains(line, sign) })
}

func lastLines(log string, n int) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
