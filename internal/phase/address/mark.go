package address

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// mark says on the Node where it moves, until the move is complete: other nodes begin no change meanwhile. If no API server
// answers, none can be begun.
func (m *machine) mark(ctx context.Context, e *engine.Env) error {
	if !m.IsReachable || m.Present.Address == m.To {
		return nil
	}
	if err := e.Do(ctx, m.annotate(m.as, m.To)); err != nil {
		return fmt.Errorf("annotating Node %s: %w", m.Name, err)
	}
	return nil
}

// unmark removes what mark, also of an earlier run, has written.
func (m *machine) unmark(ctx context.Context, e *engine.Env) error {
	var as state.Identity
	isMarked := false
	find := func(ctx context.Context, r state.Reader) error {
		var errs []error
		for _, as = range []state.Identity{m.own(), m.as} { // in a dry run the API server of this node has not moved
			n, err := nodeaddress.ReadNode(ctx, r, as, m.Name)
			if err == nil {
				isMarked = n.Annotations[node.MovingToAnnotation] != ""
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	if find(ctx, e.World) != nil {
		if err := e.Await(ctx, world.Condition{Name: "the Node of this machine", Timeout: m.Timeouts.KubernetesAPI,
			Check: find}); err != nil {
			return err
		}
	}
	if !isMarked {
		return nil
	}
	if err := e.Do(ctx, m.annotate(as, "")); err != nil {
		return fmt.Errorf("removing an annotation from Node %s: %w", m.Name, err)
	}
	return nil
}

// annotate sets the address to which this node moves on its Node; empty removes it.
func (m *machine) annotate(as state.Identity, to string) change.Change {
	return change.AnnotateNode(m.Name, as, map[string]string{node.MovingToAnnotation: to})
}
