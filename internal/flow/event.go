package flow

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
	Change change.Change // of Did and AlreadySo
	// Place tells where among phases that run side by side this happened, outermost first:
	// a renderer that wants the order of the tree holds back what is not yet its turn.
	Place []Slot
}

// Slot is one of the branches that run side by side.
type Slot struct{ Group, Index, Of int }

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Started   Kind = "started"   // a phase began
	Said      Kind = "said"      // a phase tells the user something
	Result    Kind = "result"    // a result of a phase, which may be secret, to be shown after the phase's name
	Printed   Kind = "printed"   // a result the user asked for, to be shown as it is
	Underway  Kind = "underway"  // how a change in hand gets on; of use at once or not at all
	Did       Kind = "did"       // a change was carried out
	AlreadySo Kind = "alreadyso" // a change was not needed
	Waiting   Kind = "waiting"   // a wait began
	Waited    Kind = "waited"    // a wait ended well
	Warned    Kind = "warned"    // something the user should look at
	Skipped   Kind = "skipped"   // a phase did not run, and why
	Failed    Kind = "failed"    // a phase ended with an error
	Undone    Kind = "undone"    // a change was put back
	Finished  Kind = "finished"  // a phase ended well
	Joined    Kind = "joined"    // the branch of the last Slot of Place is over
)
