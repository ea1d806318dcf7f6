// Package problem is an error with hints: what was being done, the cause, and what to check or run
// next.
package problem

import (
	"errors"
	"slices"
)

// Problem is an error with hints.
type Problem struct {
	Op    string   // what was being done; may be empty
	Err   error    // the cause
	Hints []string // what to check or run next, a line each
	Alone bool     // the hints of wrapped problems do not apply
	Code  int      // exit code of the program, if it is not 1
	// Undone is set if everything that was changed has been put back: there is nothing to resume.
	Undone bool
	// Stale is set if what the user gave was derived from a state that has changed since: given again, it is refused.
	Stale bool
}

// New is a Problem whose error says by itself what was being done.
func New(err error, hints ...string) *Problem { return &Problem{Err: err, Hints: hints} }

// During is a Problem that occurred while op was being done, such as "reading the kubeconfig".
func During(op string, err error, hints ...string) *Problem {
	return &Problem{Op: op, Err: err, Hints: hints}
}

func (p *Problem) Error() string {
	if p.Op == "" {
		return p.Err.Error()
	}
	return p.Op + ": " + p.Err.Error()
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// IsUndone reports whether everything that was changed has been put back.
func IsUndone(err error) bool { return hasProblem(err, func(p *Problem) bool { return p.Undone }) }

// IsStale reports whether what the user gave was derived from a state that has changed since.
func IsStale(err error) bool { return hasProblem(err, func(p *Problem) bool { return p.Stale }) }

// hasProblem reports whether a Problem in the chain of err is one of these.
func hasProblem(err error, is func(*Problem) bool) bool {
	var p *Problem
	for ; errors.As(err, &p); err = p.Err {
		if is(p) {
			return true
		}
	}
	return false
}

// Hints are those of every Problem in the chain of err, outermost first, each once.
func Hints(err error) []string {
	var all []string
	for err != nil {
		var found []string
		p, isProblem := any(err).(*Problem) // err itself; what it wraps comes below
		if isProblem {
			found = p.Hints
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				found = append(found, Hints(e)...)
			}
		}
		for _, hint := range found {
			if !slices.Contains(all, hint) {
				all = append(all, hint)
			}
		}
		if isProblem && p.Alone {
			break
		}
		err = errors.Unwrap(err) // nil if err wraps many
	}
	return all
}
