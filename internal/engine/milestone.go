package engine

import "sync"

// milestones tell the other phases of a parallel group how far the first one has come.
type milestones struct {
	mu      sync.Mutex
	changed *sync.Cond
	reached map[string]bool
	ended   bool
	failed  bool
}

func newMilestones() *milestones {
	m := &milestones{reached: map[string]bool{}}
	m.changed = sync.NewCond(&m.mu)
	return m
}

func (m *milestones) reach(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached[name] = true
	m.changed.Broadcast()
}

// end says that the first phase has ended.
func (m *milestones) end(failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended, m.failed = true, failed
	m.changed.Broadcast()
}

// await waits for the milestone or the end, and reports whether a phase after the milestone may
// begin. The empty one is reached from the start.
func (m *milestones) await(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name != "" && !m.reached[name] && !m.ended {
		m.changed.Wait()
	}
	return name == "" || m.reached[name] || !m.failed
}

// Reach lets those phases of the group begin that come after the milestone of this one. Where no
// phase waits for it, as when this one runs alone, nothing happens.
func (e *Env) Reach(milestone string) {
	if e.milestones != nil {
		e.milestones.reach(milestone)
	}
}
