package report

import "kubeadm/internal/flow"

// treeOrder passes events on in the order of the tree of phases: what a branch says is
// held back until the branches before it are over.
type treeOrder struct {
	show func(flow.Event)
	root branchQueue
}

// branchQueue is what one branch has said and not yet been heard.
type branchQueue struct {
	items []item
	over  bool
}

// item is an event, or a place where branches run side by side.
type item struct {
	event flow.Event
	fork  *fork
}

type fork struct {
	group    int
	branches []branchQueue
}

func (o *treeOrder) add(e flow.Event) {
	// Held back it would tell what is over: how a change gets on, and what is done, on behalf of phases that run
	// side by side, by none of them. The key of certificates must stay the last line of upload-certs.
	if e.Kind == flow.Underway || len(e.Place) == 0 && len(o.root.items) > 0 {
		o.show(e)
		return
	}
	q := o.root.at(e.Place)
	if e.Kind == flow.Joined {
		q.over = true
	} else {
		q.items = append(q.items, item{event: e})
	}
	o.root.flush(o.show, false)
}

// rest passes on everything that was still held back.
func (o *treeOrder) rest() { o.root.flush(o.show, true) }

// at finds the queue of a branch, making forks on the way.
func (q *branchQueue) at(place []flow.Slot) *branchQueue {
	for _, s := range place {
		f := q.lastFork(s.Group)
		if f == nil {
			f = &fork{group: s.Group, branches: make([]branchQueue, s.Of)}
			q.items = append(q.items, item{fork: f})
		}
		q = &f.branches[s.Index]
	}
	return q
}

func (q *branchQueue) lastFork(group int) *fork {
	for i := len(q.items) - 1; i >= 0; i-- {
		if f := q.items[i].fork; f != nil && f.group == group {
			return f
		}
	}
	return nil
}

// flush shows what may be shown and tells whether nothing is left.
func (q *branchQueue) flush(show func(flow.Event), all bool) bool {
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

func (f *fork) flush(show func(flow.Event), all bool) bool {
	for i := range f.branches {
		b := &f.branches[i]
		if empty := b.flush(show, all); !all && (!empty || !b.over) {
			return false
		}
	}
	return true
}
