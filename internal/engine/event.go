package engine

import (
	"fmt"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
)

// Event is one thing that happened. Renderers do the rest.
type Event struct {
	Time time.Time
	// Start is when that began of which this event is the end: a phase, a change or a wait. Zero
	// for all other events.
	Start time.Time
	// Phase is an address, "certs/ca", or the name of a step; empty for the workflow itself.
	Phase string
	Kind  Kind
	// Preview is set if nothing is changed: changes would be made, and waits would begin.
	Preview bool
	Text    string        // for people; secret only in Result and Printed
	Subject string        // of Waiting, Waited and WaitFailed: the name of the condition
	Limit   time.Duration // of Waiting: how long it may last; 0 if it is not known
	Check   string        // of Warned: the preflight check, if one says it
	Change  change.Change // of Did, Unchanged, ChangeFailed and Undone
	Effect  change.Effect // of Did: what it did to its target
	Node    *node.Node    // of Intent; without a version if that is not known yet
	Join    *JoinCommands // of Joinable
	// Place says in which of several concurrent branches this happened, outermost first: a
	// renderer that keeps the order of the tree holds back the events of later branches.
	Place []Slot
}

// Slot is one of several concurrent branches.
type Slot struct{ Group, Index, Of int }

// JoinCommands are the commands that join machines with one token, and their parts. Values that the
// user does not want to see are Withheld.
type JoinCommands struct {
	Endpoint       string // host:port of the API server
	Token          string
	Expires        time.Time // of the token; zero if it does not expire
	CACertHashes   []string  // pins of the cluster's CAs
	CertificateKey string    // of the uploaded certificates; empty if there are none
	Worker         string
	ControlPlane   string // empty without a shared endpoint of control planes
}

// Kind is what happened. Programs that read events see it as the type of an event: see
// docs/reference/run.md.
type Kind string

// The kinds of events.
const (
	Intent   Kind = "intent"        // what the run is to make is known, or better known
	Started  Kind = "phaseStarted"  // a phase began
	Skipped  Kind = "phaseSkipped"  // a phase did not run, and why
	Finished Kind = "phaseFinished" // a phase succeeded
	Failed   Kind = "phaseFailed"   // a phase failed, or one below it

	Changing     Kind = "changeStarted"  // a change is needed and begins; for terminals
	Progress     Kind = "changeProgress" // progress of a change, shown at once
	Did          Kind = "changeDone"     // a change was carried out
	Unchanged    Kind = "changeNotNeeded"
	ChangeFailed Kind = "changeFailed"
	Undone       Kind = "changeUndone"

	Waiting    Kind = "waitStarted"
	Waited     Kind = "waitFinished" // what was waited for is the case
	WaitFailed Kind = "waitFailed"   // the wait is over, and it is not

	Info   Kind = "message" // a phase reports progress
	Warned Kind = "warning" // something the user should check
	// a result of a phase, which may be secret, to be shown after the phase's name
	Result   Kind = "result"
	Printed  Kind = "text"         // a result the user asked for, to be shown as it is
	Joinable Kind = "joinCommands" // machines can join; the same as fields
	Joined   Kind = "branchEnded"  // the branch of the last Slot of Place is over
)

// PhaseError is the failure of a phase.
type PhaseError struct {
	Phase string // its address
	Err   error
}

func (e *PhaseError) Error() string { return fmt.Sprintf("phase %s: %v", e.Phase, e.Err) }

// Unwrap returns the cause.
func (e *PhaseError) Unwrap() error { return e.Err }
