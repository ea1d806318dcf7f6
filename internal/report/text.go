// Package report turns events into lines of text and problems into help. But for the results of
// commands, which cli prints, all that a user reads comes from here.
package report

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// Text renders events as lines "[phase] what happened": progress and results to Out, to Err warnings and how
// a change in hand gets on.
type Text struct {
	Out, Err io.Writer
	// Verbosity 0 shows what phases say and wait for, 1 also each change, skipped phase and thing already so.
	Verbosity int
	// Conditional says "would" before each change and wait, and shows what would be written.
	Conditional bool

	mu    sync.Mutex
	order *treeOrder
}

// Emit takes one event; it may be called by many at once.
func (t *Text) Emit(e flow.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.order == nil {
		t.order = &treeOrder{show: t.show}
	}
	t.order.add(e)
}

// Close shows what was still held back for the sake of order.
func (t *Text) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.order != nil {
		t.order.rest()
	}
}

func (t *Text) show(e flow.Event) {
	switch e.Kind {
	case flow.Printed:
		if t.Conditional {
			t.line(e, "would show:")
		}
		fmt.Fprint(t.Out, e.Text)
	case flow.Warned:
		t.warn(e)
	case flow.Underway:
		fmt.Fprintf(t.Err, "[%s] %s\n", phaseTag(e), safeMessage(e.Text, "\t"))
	case flow.Said:
		t.line(e, "%s", e.Text)
	case flow.Result:
		fmt.Fprintf(t.Out, "[%s] %s\n", phaseTag(e), untrusted.Screen(e.Text))
	case flow.Waiting:
		t.waiting(e)
	case flow.Waited:
		if !t.Conditional {
			t.line(e, "%s", e.Text)
		}
	case flow.Did:
		t.did(e)
	case flow.Undone:
		t.line(e, "put back: %s", e.Text)
	case flow.AlreadySo, flow.Skipped:
		t.aside(e)
	}
}

func (t *Text) warn(e flow.Event) {
	if e.Check != "" {
		fmt.Fprintf(t.Err, "\t[WARNING %s]: %s\n", e.Check, safeMessage(e.Text, "\t\t"))
		return
	}
	fmt.Fprintf(t.Err, "[%s] warning: %s\n", phaseTag(e), safeMessage(e.Text, "\t"))
}

func (t *Text) waiting(e flow.Event) {
	if t.Conditional {
		t.line(e, "would wait for %s", e.Text)
		return
	}
	t.line(e, "waiting for %s", e.Text)
}

func (t *Text) did(e flow.Event) {
	if !t.Conditional {
		if t.Verbosity > 0 {
			t.line(e, "done: %s", e.Text)
		}
		return
	}
	t.line(e, "would %s", e.Text)
	if shown, ok := e.Change.(change.Shown); ok {
		if text := untrusted.Screen(redactSecrets(strings.TrimRight(shown.Content(), "\n"))); text != "" {
			fmt.Fprintf(t.Out, "\t%s\n", strings.ReplaceAll(text, "\n", "\n\t"))
		}
	}
}

func (t *Text) aside(e flow.Event) {
	if t.Verbosity == 0 {
		return
	}
	if e.Kind == flow.Skipped {
		t.line(e, "phase %s is skipped: %s", e.Phase, e.Text)
		return
	}
	t.line(e, "already so: %s", e.Text)
}

func (t *Text) line(e flow.Event, format string, args ...any) {
	fmt.Fprintf(t.Out, "[%s] %s\n", phaseTag(e), safeMessage(fmt.Sprintf(format, args...), "\t"))
}

// safeMessage makes text safe to show: without secrets and control characters, and further lines indented, so that
// none of them looks like a line of ours.
func safeMessage(text, indent string) string {
	lines := strings.Split(untrusted.Screen(redactSecrets(strings.TrimRight(text, "\n"))), "\n")
	for i, line := range lines[1:] {
		lines[i+1] = indent + strings.TrimPrefix(line, "\t")
	}
	return strings.Join(lines, "\n")
}

// phaseTag is the first part of the phase's address.
func phaseTag(e flow.Event) string {
	if e.Phase == "" {
		return "kubeadm"
	}
	top, _, _ := strings.Cut(e.Phase, "/")
	return top
}

// Error tells what went wrong and what to do about it: a first line, further lines of the error indented by a tab, and
// the next steps as a list. Only the list has lines that begin with a dash: other text cannot imitate it.
func Error(w io.Writer, err error) {
	fmt.Fprintf(w, "error: %s\n", safeMessage(err.Error(), "\t"))
	for _, hint := range problem.Hints(err) {
		fmt.Fprintf(w, "  - %s\n", safeMessage(hint, "    "))
	}
}
