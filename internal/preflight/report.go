package preflight

import (
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// Severity says whether a finding stops the command.
type Severity string

// A warning is shown; an error stops the command.
const (
	Warning Severity = "WARNING"
	Error   Severity = "ERROR"
)

// Finding is one thing that a check found.
type Finding struct {
	Check    string // public name of the check
	Severity Severity
	Text     string // what is wrong, and with what
	Remedy   string // the next step, where Text does not name it

	Evidence string          // what was read, where Text does not quote it; may have several lines
	Command  string          // the command that fixes it; empty if there is no single one
	Changes  []change.Change // what "kubeadm doctor --fix" does in place of the command
	// NotMade is set if nothing is known to be wrong, as the check could not be made, or if another
	// check reports the cause: it says so. The doctor does not list that as a finding.
	NotMade string
}

// String is one line: "[ERROR NumCPU]: what is wrong; the next step". A list in the text comes
// after it.
func (f Finding) String() string {
	return fmt.Sprintf("[%s %s]: %s", f.Severity, f.Check, f.Message())
}

// Message returns what is wrong, and the next step.
func (f Finding) Message() string {
	line, list, _ := strings.Cut(f.Text, "\n")
	if f.Remedy != "" {
		line += "; " + f.Remedy
	}
	if list != "" {
		line += "\n" + list
	}
	return line
}

// Report collects what one check finds. It is not safe for use by several goroutines.
type Report struct {
	check    string
	findings []Finding
	skipped  string
}

// NewReport returns an empty report of the check of that name.
func NewReport(check string) *Report { return &Report{check: check} }

// Warn adds a finding that the user should look at.
func (r *Report) Warn(remedy, format string, args ...any) {
	r.Add(Finding{Severity: Warning, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Fail adds a finding that the user must fix before the command can continue.
func (r *Report) Fail(remedy, format string, args ...any) {
	r.Add(Finding{Severity: Error, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Add adds a finding of this check.
func (r *Report) Add(f Finding) {
	f.Check = r.check
	r.findings = append(r.findings, f)
}

// Skip says why the check, or a part of it, cannot be made on this machine. The doctor reports that;
// preflight checks have nothing to report then. Of several reasons the first counts.
func (r *Report) Skip(format string, args ...any) {
	if r.skipped == "" {
		r.skipped = fmt.Sprintf(format, args...)
	}
}

// Skipped is the reason that was given to Skip; empty if the check was made.
func (r *Report) Skipped() string { return r.skipped }

// FailWith adds an error; its hints are the remedy.
func (r *Report) FailWith(err error) {
	r.Fail(strings.Join(problem.Hints(err), "; "), "%v", err)
}

// Result returns the findings; if the check is ignored, its errors count as warnings.
func (r *Report) Result(ignore node.IgnoredChecks) Result {
	found := slices.Clone(r.findings)
	if ignore.Has(r.check) {
		for i := range found {
			found[i].Severity = Warning
		}
	}
	return Result{Findings: found}
}

// Result has the findings of a set of checks.
type Result struct {
	Findings []Finding // in the order of the checks
	stopped  error     // the checks were interrupted, so there are no findings
}

// Warnings returns the findings that do not stop the command.
func (r Result) Warnings() []Finding { return r.withSeverity(Warning) }

// Err returns one error that lists every finding that stops the command, with hints; nil if there
// is none. errors.As finds the single findings in it as Failures.
func (r Result) Err() error {
	if r.stopped != nil {
		return r.stopped
	}
	failed := Failures(r.withSeverity(Error))
	if len(failed) == 0 {
		return nil
	}
	hints := []string{"fix these errors, then re-run the command"}
	if fixable := failed.fixable(); len(fixable) > 0 {
		hints = append(hints, "to review and apply the fix of "+strings.Join(fixable.checkNames(), ", ")+
			": kubeadm doctor --fix")
	}
	return problem.New(failed, append(hints,
		"to continue anyway, add --ignore-preflight-errors="+
			strings.Join(failed.checkNames(), ","))...)
}

func (r Result) withSeverity(s Severity) []Finding {
	var list []Finding
	for _, f := range r.Findings {
		if f.Severity == s {
			list = append(list, f)
		}
	}
	return list
}

// Failures are the findings that stop a command, as one error of a line each.
type Failures []Finding

func (f Failures) Error() string {
	text := "this machine is not ready:"
	for _, one := range f {
		text += "\n\t" + one.String()
	}
	return text
}

// fixable returns the findings that the doctor can fix.
func (f Failures) fixable() Failures {
	return slices.DeleteFunc(slices.Clone(f),
		func(one Finding) bool { return len(one.Changes) == 0 })
}

func (f Failures) checkNames() []string {
	var names []string
	for _, one := range f {
		if !slices.Contains(names, one.Check) {
			names = append(names, one.Check)
		}
	}
	return names
}
