package health

import (
	"context"
	"fmt"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// outdated keeps a wait from being content with components that run by manifests which have changed since: the kubelet
// is about to end them, and whoever asks them next gets no answer.
type outdated struct {
	n          *node.Node
	components []string
	begun      time.Time
	over       bool // none of them runs any more, which does not change back
}

// endedWithin is how long the kubelet takes at most to end a component whose manifest has changed: it sees the change within
// seconds and lets the component have half a minute. One that still runs then is not to be ended: its manifest is only as
// if new, as after a clock was set back.
const endedWithin = time.Minute

// check tells of a component that the kubelet has yet to end.
func (o *outdated) check(ctx context.Context, r state.Reader) error {
	if o.over {
		return nil
	}
	if o.begun.IsZero() {
		o.begun = r.Now()
	}
	name := o.running(ctx, r)
	if o.over = name == "" || r.Now().Sub(o.begun) >= endedWithin; o.over {
		return nil
	}
	return fmt.Errorf("%s still runs as it did before its manifest was changed", name)
}

// running is the first of the components that has a container older than its manifest; empty if there is none.
func (o *outdated) running(ctx context.Context, r state.Reader) string {
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
			if c.Component == component && c.Name == component && c.Running && c.Created.Before(manifest.ModTime) {
				return component
			}
		}
	}
	return ""
}
