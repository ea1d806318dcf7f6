package health

import (
	"context"
	"fmt"
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
	name := o.findOutdated(ctx, r)
	if o.done = name == "" || r.Now().Sub(o.begun) >= restartTimeout; o.done {
		return nil
	}
	return fmt.Errorf("%s still runs with its previous manifest", name)
}

// findOutdated returns the first component with a running container older than its manifest; empty
// if there is none.
func (o *outdatedWatch) findOutdated(ctx context.Context, r state.Reader) string {
	all, err := r.Containers(ctx, o.n.CRISocket)
	if err != nil {
		return ""
	}
	for _, component := range o.components {
		manifest, err := r.Stat(ctx, o.n.Paths.Manifest(component))
		if err != nil {
			continue
		}
		for _, c := range all {
			if c.Component == component && c.Name == component && c.Running &&
				c.Created.Before(manifest.ModTime) {
				return component
			}
		}
	}
	return ""
}
