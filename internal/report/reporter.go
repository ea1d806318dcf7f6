package report

import (
	"sync/atomic"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/untrusted"
)

// Renderer shows or collects events. Emit is safe for concurrent use.
type Renderer interface{ Emit(e engine.Event) }

// Reporter passes every event of a command to all of its renderers: to the text for people, to the
// log file, and to those that the user asked for.
type Reporter struct {
	Text *Text
	Live *Terminal // shows Text; nil if that is not a terminal
	Log  *RunLog   // nil for none
	Also []Renderer
	// Preview marks every event as one of a dry run: those before the run too.
	Preview bool

	// IsUncounted reports whether a change is none of what a command is for, such as of a lock; nil if each counts.
	IsUncounted func(change.Change) bool

	changes atomic.Int64
}

// Changed reports whether the command has changed anything.
func (r *Reporter) Changed() bool { return r.Changes() > 0 }

// Changes returns how many changes the command has made so far.
func (r *Reporter) Changes() int64 { return r.changes.Load() }

// Emit passes on one event.
func (r *Reporter) Emit(e engine.Event) {
	e.Preview = e.Preview || r.Preview
	if e.Kind == engine.Did && !e.Preview && (r.IsUncounted == nil || !r.IsUncounted(e.Change)) {
		r.changes.Add(1)
	}
	if r.Live != nil {
		r.Live.observe(e)
	}
	r.Text.Emit(e)
	if r.Log != nil {
		r.Log.Emit(e)
	}
	for _, renderer := range r.Also {
		renderer.Emit(e)
	}
}

// Close shows the text that was held back, and removes the status line.
func (r *Reporter) Close() {
	r.Text.Close()
	if r.Live != nil {
		r.Live.Close()
	}
}

// messageOf returns the text of an event for programs. Results are shown as they are, since the
// user asked for them; all other text is without secrets.
func messageOf(e engine.Event) string {
	if e.Kind == engine.Result || e.Kind == engine.Printed {
		return untrusted.Screen(e.Text)
	}
	return Redact(e.Text)
}
