package report

import (
	"slices"

	"kubeadm/internal/engine"
)

// treeOrder shows events in the order of the tree of phases: those of a branch are held back until
// the branches before it have ended.
type treeOrder struct {
	show func(engine.Event)
	root branchQueue
}

// branchQueue has the events of one branch that are not shown yet.
type branchQueue struct {
	items []queueItem
	over  bool
}

// queueItem is an event, or a group of concurrent branches.
type queueItem struct {
	event engine.Event
	fork  *branchGroup
}

type branchGroup struct {
	group    int
	branches []branchQueue
}

func (o *treeOrder) add(e engine.Event) {
	// Two kinds are shown at once: progress, which would be outdated later, and events that belong to
	// no branch while branches run. The certificate key must stay the last line of upload-certs.
	if e.Kind == engine.Progress || len(e.Place) == 0 && len(o.root.items) > 0 {
		o.show(e)
		return
	}
	q := o.root.branchAt(e.Place)
	if e.Kind == engine.Joined {
		q.over = true
	} else {
		q.items = append(q.items, queueItem{event: e})
	}
	o.root.flush(o.show, false)
}

// branchAt finds the queue of a branch, and creates those above it.
func (q *branchQueue) branchAt(place []engine.Slot) *branchQueue {
	for _, s := range place {
		var fork *branchGroup
		for _, item := range slices.Backward(q.items) {
			if item.fork != nil && item.fork.group == s.Group {
				fork = item.fork
				break
			}
		}
		if fork == nil {
			fork = &branchGroup{group: s.Group, branches: make([]branchQueue, s.Of)}
			q.items = append(q.items, queueItem{fork: fork})
		}
		q = &fork.branches[s.Index]
	}
	return q
}

// flush shows what may be shown, or everything if all is set, and reports whether nothing is left.
func (q *branchQueue) flush(show func(engine.Event), all bool) bool {
	for len(q.items) > 0 {
		head := q.items[0]
		if head.fork == nil {
			show(head.event)
		} else {
			for i := range head.fork.branches {
				b := &head.fork.branches[i]
				if empty := b.flush(show, all); !all && (!empty || !b.over) {
					return false
				}
			}
		}
		q.items = q.items[1:]
	}
	return true
}
