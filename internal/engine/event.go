package engine

import (
	"time"

	"kubeadm/internal/change"
)

// Event is one thing that happened. Renderers do the rest.
type Event struct {
	Time   time.Time
	Phase  string // address, "certs/ca"; empty for the workflow itself
	Kind   Kind
	Text   string        // for people; secret only in Result and Printed
	Check  string        // of Warned: the preflight check, if one says it
	Change change.Change // of Did and Unchanged
	// Place says in which of several concurrent branches this happened, outermost first: a
	// renderer that keeps the order of the tree holds back the events of later branches.
	Place []Slot
}

// Slot is one of several concurrent branches.
type Slot struct{ Group, Index, Of int }

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Started Kind = "started" // a phase began
	Info    Kind = "said"    // a phase reports progress
	// a result of a phase, which may be secret, to be shown after the phase's name
	Result    Kind = "result"
	Printed   Kind = "printed"   // a result the user asked for, to be shown as it is
	Progress  Kind = "underway"  // progress of a change, shown at once
	Did       Kind = "did"       // a change was carried out
	Unchanged Kind = "alreadyso" // a change was not needed
	Waiting   Kind = "waiting"   // a wait began
	Waited    Kind = "waited"    // a wait succeeded
	Warned    Kind = "warned"    // something the user should check
	Skipped   Kind = "skipped"   // a phase did not run, and why
	Failed    Kind = "failed"    // a phase failed
	Undone    Kind = "undone"    // a change was undone
	Finished  Kind = "finished"  // a phase succeeded
	Joined    Kind = "joined"    // the branch of the last Slot of Place is over
)
