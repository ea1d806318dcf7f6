package report

import "kubeadm/internal/engine"

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
	// Two kinds are shown at once: progress, which would be outdated later, and events of steps
	// that concurrent phases share. The certificate key must stay the last line of upload-certs.
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

// flushAll shows everything that was held back.
func (o *treeOrder) flushAll() { o.root.flush(o.show, true) }

// branchAt finds the queue of a branch, and creates those above it.
func (q *branchQueue) branchAt(place []engine.Slot) *branchQueue {
	for _, s := range place {
		f := q.lastFork(s.Group)
		if f == nil {
			f = &branchGroup{group: s.Group, branches: make([]branchQueue, s.Of)}
			q.items = append(q.items, queueItem{fork: f})
		}
		q = &f.branches[s.Index]
	}
	return q
}

func (q *branchQueue) lastFork(group int) *branchGroup {
	for i := len(q.items) - 1; i >= 0; i-- {
		if f := q.items[i].fork; f != nil && f.group == group {
			return f
		}
	}
	return nil
}

// flush shows what may be shown and reports whether nothing is left.
func (q *branchQueue) flush(show func(engine.Event), all bool) bool {
	for len(q.items) > 0 {
		head := q.items[0]
		if head.fork == nil {
			show(head.event)
		} else if !head.fork.flush(show, all) {
			return false
		}
		q.items = q.items[1:]
	}
	return true
}

func (f *branchGroup) flush(show func(engine.Event), all bool) bool {
	for i := range f.branches {
		b := &f.branches[i]
		if empty := b.flush(show, all); !all && (!empty || !b.over) {
			return false
		}
	}
	return true
}
