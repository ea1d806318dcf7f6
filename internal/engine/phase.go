// Package engine is the engine: it runs trees of phases in order, skips phases, runs siblings
// concurrently, and reports everything that happens as events. It knows nothing of particular commands,
// files or objects: phases do.
package engine

import (
	"context"
	"slices"
	"strings"

	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

// Phase is a named node of the tree that a user can address, skip or run alone.
type Phase struct {
	// Name is the last part of the address, such as "ca" of "certs/ca". A phase without a
	// name is part of its parent, and its children count as the parent's. Of the
	// other fields only When, Before, Run, Parallel and After mean anything.
	Name    string
	Aliases []string
	Short   string
	Long    string
	Flags   []flag.Name // a group without any has those of its children
	Hidden  bool        // has no command of its own
	NoArgs  bool        // its command takes no argument even where the workflow's does
	// UsesAddress is set if it uses the address of this machine but has no flag for it.
	UsesAddress bool

	When func(*node.Node) (ok bool, why string) // nil: always
	// phases that must not be skipped before this one
	Needs []string
	// phases of which one must be part of the run, or this one is not; empty for a phase of its own
	OnlyWith []string
	// done before Run, if no earlier phase of this run has done it
	Before []Step
	// nil for a pure group; else runs before the children
	Run func(ctx context.Context, e *Env) error

	Phases   []Phase
	Parallel bool // children may run at the same time
	// After are milestones that this phase waits for, of phases that come before it in the tree but may
	// run at the same time.
	After []Milestone
	// Points are those that it reaches before its end. Those of a child without a name are points of its
	// parent.
	Points  []Milestone
	OnError Recovery
}

// Step is work that several phases need. It is done once in a run, before the first of them, also
// where that one runs alone.
type Step struct {
	Name string                // the phase of its events
	When func(*node.Node) bool // nil: always
	Run  func(ctx context.Context, e *Env) error
}

// If is the same step for phases that need it only under that condition.
func (s Step) If(when func(*node.Node) bool) Step {
	s.When = when
	return s
}

// Recovery is what happens to what a phase changed when it fails.
type Recovery int

// Keep leaves everything as it is, for a re-run to resume. Undo undoes every change, newest first.
const (
	Keep Recovery = iota
	Undo
)

// Walk visits every named phase below ps in order with its address, such as "certs/ca".
func Walk(ps []Phase, visit func(address string, p Phase)) {
	for _, p := range ps {
		if p.Name == "" {
			Walk(p.Phases, visit)
			continue
		}
		visit(p.Name, p)
		Walk(p.Phases, func(below string, child Phase) { visit(p.Name+"/"+below, child) })
	}
}

// Selection says which phases of a workflow run.
type Selection struct {
	// addresses; children of a skipped phase are skipped too; "certs/all" skips nothing
	Skip []string
	Only string // one address: it and its children run; empty for all
}

// all is the end of the command that runs a group, such as "certs all". It is no phase: upstream
// accepts it in
// --skip-phases and skips nothing.
const all = "/all"

// Runs reports whether the phase with that address is to run.
func (s Selection) Runs(address string) bool {
	return s.isSelected(address) && !s.isSkipped(address)
}

// includes reports whether a phase with that address is to run, and one of those that it is only run
// with.
func (s Selection) includes(address string, p Phase) bool {
	return s.Runs(address) && (len(p.OnlyWith) == 0 || slices.ContainsFunc(p.OnlyWith, s.Runs))
}

func (s Selection) isSkipped(address string) bool {
	return slices.ContainsFunc(s.Skip, func(skip string) bool { return isAtOrBelow(address, skip) })
}

// isSelected reports whether the phase itself is to run, other than as the parent of one.
func (s Selection) isSelected(address string) bool {
	return s.Only == "" || isAtOrBelow(address, s.Only)
}

func isAtOrBelow(address, top string) bool {
	return address == top || strings.HasPrefix(address, top+"/")
}
