package health

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// outdatedWatch finds components that still run by an earlier version of their manifest. They
// answer, but the kubelet is about to restart them.
type outdatedWatch struct {
	n          *node.Node
	components []string
	begun      time.Time
	done       bool // none of them is left
}

// restartTimeout is the longest time in which the kubelet stops a component whose manifest has
// changed: it sees the change within seconds, and the grace period is half a minute. If the
// component still runs then, its manifest just looks newer, for example after the clock was set
// back.
const restartTimeout = time.Minute

// check is an error while the kubelet has to restart a component.
func (o *outdatedWatch) check(ctx context.Context, r state.Reader) error {
	if o.done {
		return nil
	}
	if o.begun.IsZero() {
		o.begun = r.Now()
	}
	names := OutdatedComponents(ctx, r, o.n, o.components...)
	o.done = len(names) == 0 || r.Now().Sub(o.begun) >= restartTimeout
	if o.done {
		return nil
	}
	return fmt.Errorf("%s is still running with its previous manifest", names[0])
}

// OutdatedComponents returns those of the components that have a running container older than their
// manifest.
func OutdatedComponents(ctx context.Context, r state.Reader, n *node.Node,
	components ...string) (outdated []string) {
	all, err := r.Containers(ctx, n.CRISocket)
	if err != nil {
		return nil
	}
	for _, component := range components {
		manifest, err := r.Stat(ctx, n.Paths.Manifest(component))
		if err == nil && slices.ContainsFunc(all, func(c state.Container) bool {
			return c.Component == component && c.Name == component && c.Running &&
				c.Created.Before(manifest.ModTime)
		}) {
			outdated = append(outdated, component)
		}
	}
	return outdated
}
