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
// the progress of a single change to Err. In a preview it prints "would" before each change and
// wait, and the contents of files and objects.
type Text struct {
	Out, Err io.Writer
	// Verbosity 0 shows the progress and the waits of phases, 1 also each change and each skipped
	// phase.
	Verbosity int
	Style     *Style // of warnings; may be nil

	mu     sync.Mutex
	order  *treeOrder
	failed error // the first one of writing to Out
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

// OutError returns the first error of writing to Out: what the user asked for may be lost.
func (t *Text) OutError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// print writes to Out.
func (t *Text) print(format string, args ...any) {
	if _, err := fmt.Fprintf(t.Out, format, args...); t.failed == nil {
		t.failed = err
	}
}

func (t *Text) show(e engine.Event) {
	switch e.Kind {
	case engine.Printed:
		if e.Preview {
			t.printLine(e, "would show:")
		}
		t.print("%s", untrusted.Screen(e.Text))
	case engine.Warned:
		if e.Check != "" {
			fmt.Fprintf(t.Err, "\t%s: %s\n", t.Style.in(yellow, "[WARNING "+e.Check+"]"), safeMessage(e.Text, "\t\t"))
			return
		}
		fmt.Fprintf(t.Err, "[%s] %s %s\n", phaseTag(e), t.Style.in(yellow, "warning:"), safeMessage(e.Text, "\t"))
	case engine.Progress:
		fmt.Fprintf(t.Err, "[%s] %s\n", phaseTag(e), safeMessage(e.Text, "\t"))
	case engine.Info:
		t.printLine(e, "%s", e.Text)
	case engine.Result:
		t.print("[%s] %s\n", phaseTag(e), untrusted.Screen(e.Text))
	case engine.Waiting:
		if e.Preview {
			t.printLine(e, "would wait for %s", e.Text)
			return
		}
		t.printLine(e, "waiting for %s", e.Text)
	case engine.Waited:
		if !e.Preview {
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
	if !e.Preview {
		if t.Verbosity > 0 {
			t.printLine(e, "done: %s", e.Text)
		}
		return
	}
	t.printLine(e, "would %s", e.Text)
	if shown, ok := e.Change.(change.Previewable); ok {
		if text := Redact(strings.TrimRight(shown.Content(), "\n")); text != "" {
			t.print("\t%s\n", strings.ReplaceAll(text, "\n", "\n\t"))
		}
	}
}

func (t *Text) printLine(e engine.Event, format string, args ...any) {
	t.print("[%s] %s\n", phaseTag(e), safeMessage(fmt.Sprintf(format, args...), "\t"))
}

// safeMessage makes text safe to show: without secrets and control characters, and with further
// lines indented, so that none of them looks like a line of this program.
func safeMessage(text, indent string) string {
	lines := strings.Split(Redact(strings.TrimRight(text, "\n")), "\n")
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
func Error(w io.Writer, s *Style, err error) {
	fmt.Fprintf(w, "%s %s\n", s.in(red, "error:"), safeMessage(err.Error(), "\t"))
	for _, hint := range problem.Hints(err) {
		fmt.Fprintf(w, "  - %s\n", safeMessage(hint, "    "))
	}
}
