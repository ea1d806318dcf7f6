// Package report renders events and errors as text. All that a user reads comes from here, except
// for the results of commands, which cli prints.
package report

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// Text renders events as lines "[phase] what happened": progress and results to Out, warnings and
// the progress of a single change to Err.
type Text struct {
	Out, Err io.Writer
	// Verbosity 0 shows the progress and the waits of phases, 1 also each change and each skipped
	// phase.
	Verbosity int
	// Conditional prints "would" before each change and wait, and the contents of files and
	// objects.
	Conditional bool

	mu    sync.Mutex
	order *treeOrder
}

// Emit shows one event, in its turn. It is safe for concurrent use.
func (t *Text) Emit(e engine.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.order == nil {
		t.order = &treeOrder{show: t.show}
	}
	t.order.add(e)
}

// Close shows the events that were held back.
func (t *Text) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.order != nil {
		t.order.root.flush(t.show, true)
	}
}

func (t *Text) show(e engine.Event) {
	switch e.Kind {
	case engine.Printed:
		if t.Conditional {
			t.printLine(e, "would show:")
		}
		fmt.Fprint(t.Out, e.Text)
	case engine.Warned:
		if e.Check != "" {
			fmt.Fprintf(t.Err, "\t[WARNING %s]: %s\n", e.Check, safeMessage(e.Text, "\t\t"))
			return
		}
		fmt.Fprintf(t.Err, "[%s] warning: %s\n", phaseTag(e), safeMessage(e.Text, "\t"))
	case engine.Progress:
		fmt.Fprintf(t.Err, "[%s] %s\n", phaseTag(e), safeMessage(e.Text, "\t"))
	case engine.Info:
		t.printLine(e, "%s", e.Text)
	case engine.Result:
		fmt.Fprintf(t.Out, "[%s] %s\n", phaseTag(e), untrusted.Screen(e.Text))
	case engine.Waiting:
		if t.Conditional {
			t.printLine(e, "would wait for %s", e.Text)
			return
		}
		t.printLine(e, "waiting for %s", e.Text)
	case engine.Waited:
		if !t.Conditional {
			t.printLine(e, "%s", e.Text)
		}
	case engine.Did:
		t.showChange(e)
	case engine.Undone:
		t.printLine(e, "undone: %s", e.Text)
	case engine.Unchanged:
		if t.Verbosity > 0 {
			t.printLine(e, "unchanged: %s", e.Text)
		}
	case engine.Skipped:
		if t.Verbosity > 0 {
			t.printLine(e, "phase %s is skipped: %s", e.Phase, e.Text)
		}
	}
}

func (t *Text) showChange(e engine.Event) {
	if !t.Conditional {
		if t.Verbosity > 0 {
			t.printLine(e, "done: %s", e.Text)
		}
		return
	}
	t.printLine(e, "would %s", e.Text)
	if shown, ok := e.Change.(change.Previewable); ok {
		if text := untrusted.Screen(
			redactSecrets(strings.TrimRight(shown.Content(), "\n"))); text != "" {
			fmt.Fprintf(t.Out, "\t%s\n", strings.ReplaceAll(text, "\n", "\n\t"))
		}
	}
}

func (t *Text) printLine(e engine.Event, format string, args ...any) {
	fmt.Fprintf(t.Out, "[%s] %s\n", phaseTag(e), safeMessage(fmt.Sprintf(format, args...), "\t"))
}

// safeMessage makes text safe to show: without secrets and control characters, and with further
// lines indented, so that none of them looks like a line of this program.
func safeMessage(text, indent string) string {
	lines := strings.Split(untrusted.Screen(redactSecrets(strings.TrimRight(text, "\n"))), "\n")
	for i, line := range lines[1:] {
		lines[i+1] = indent + strings.TrimPrefix(line, "\t")
	}
	return strings.Join(lines, "\n")
}

// phaseTag is the first part of the phase's address.
func phaseTag(e engine.Event) string {
	if e.Phase == "" {
		return "kubeadm"
	}
	top, _, _ := strings.Cut(e.Phase, "/")
	return top
}

// Error prints an error and its hints: a first line, further lines of the error indented by a tab,
// and the hints as a list. Only the list has lines that begin with a dash: other text cannot
// imitate it.
func Error(w io.Writer, err error) {
	fmt.Fprintf(w, "error: %s\n", safeMessage(err.Error(), "\t"))
	for _, hint := range problem.Hints(err) {
		fmt.Fprintf(w, "  - %s\n", safeMessage(hint, "    "))
	}
}
