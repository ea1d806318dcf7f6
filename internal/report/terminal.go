package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"kubeadm/internal/engine"
	"kubeadm/internal/redact"
	"kubeadm/internal/untrusted"
)

// refresh is the time between two drawings of the status line.
const refresh = 200 * time.Millisecond

// Terminal is a terminal on which people watch a command. Below what is written to it, it keeps one
// status line: the current step, what it waits for, elapsed time and limit. Each write goes
// above the line, and Close removes it. No mode of the terminal is changed, so that it can be used
// as before even if the command is killed.
type Terminal struct {
	to      io.Writer
	columns func() int // 0 if unknown; asked each time, since windows are resized
	ticks   Ticks

	mu      sync.Mutex
	steps   []step        // under way, in the order in which they began
	drawn   string        // the status line, as it is on the screen
	midLine bool          // the cursor is behind text, such as a question
	tick    time.Time     // the last one
	stop    chan struct{} // ends the drawing; nil if nothing draws
}

// step is a phase under way.
type step struct {
	phase string
	does  string        // a wait or a change; may be empty
	since time.Time     // when it began to do that
	limit time.Duration // of a wait
	begun int           // changes that are made at the same time
	done  int           // of them
	// passing is set for a wait or a change outside of the phases under way: a deferred one of a
	// phase that is over. It ends the step.
	passing bool
}

// Ticks sends the time again and again, at that interval, until stop is called.
type Ticks func(every time.Duration) (ticks <-chan time.Time, stop func())

// NewTerminal is a terminal of that many columns. The ticks make the status line go on.
func NewTerminal(to io.Writer, columns func() int, ticks Ticks) *Terminal {
	return &Terminal{to: to, columns: columns, ticks: ticks}
}

// Write shows text above the status line.
func (t *Terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isDrawn := t.drawn != ""
	t.erase()
	n, err := t.to.Write(text)
	if len(text) > 0 {
		t.midLine = !bytes.HasSuffix(text, []byte("\n"))
	}
	if isDrawn {
		t.draw(t.tick)
	}
	return n, err
}

// Close removes the status line. A step that begins later brings it back.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = nil
	t.erase()
	if t.stop != nil {
		close(t.stop)
		t.stop = nil
	}
}

// observe takes note of what an event says about the step in hand.
func (t *Terminal) observe(e engine.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.steps, func(s step) bool { return s.phase == e.Phase })
	switch e.Kind {
	case engine.Finished, engine.Failed:
		if at >= 0 {
			t.steps = slices.Delete(t.steps, at, at+1)
		}
		return
	case engine.Started, engine.Waiting, engine.Changing:
	case engine.Waited, engine.WaitFailed, engine.Did, engine.ChangeFailed:
		if at < 0 {
			return
		}
	default:
		return
	}
	if at < 0 {
		at, t.steps = len(t.steps), append(t.steps, step{phase: e.Phase, since: e.Time, passing: e.Kind != engine.Started})
		t.start()
	}
	s := &t.steps[at]
	if s.observe(e); s.passing && s.does == "" {
		t.steps = slices.Delete(t.steps, at, at+1)
	}
}

// observe takes note of an event of the step.
func (s *step) observe(e engine.Event) {
	switch e.Kind {
	case engine.Waiting:
		*s = step{phase: s.phase, does: "waiting for " + e.Text, since: e.Time, limit: e.Limit, passing: s.passing}
	case engine.Changing:
		if s.begun++; s.begun == 1 {
			s.does, s.since = e.Text, e.Time
		}
	case engine.Did, engine.ChangeFailed:
		if s.done++; s.done >= s.begun {
			*s = step{phase: s.phase, since: e.Time, passing: s.passing}
		}
	default:
		*s = step{phase: s.phase, since: e.Time, passing: s.passing && e.Kind != engine.Started}
	}
}

// start begins to draw. A quick step is over before it is drawn once.
func (t *Terminal) start() {
	if t.stop != nil {
		return
	}
	stop := make(chan struct{})
	t.stop = stop
	go func() {
		ticks, end := t.ticks(refresh)
		defer end()
		for {
			select {
			case <-stop:
				return
			case now := <-ticks:
				t.redraw(stop, now)
			}
		}
	}()
}

// redraw draws the status line again, unless Close has ended this drawing.
func (t *Terminal) redraw(drawing chan struct{}, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop == drawing {
		t.tick = now
		t.erase()
		t.draw(now)
	}
}

// erase removes the status line. In a window that became narrower since, it takes several rows.
func (t *Terminal) erase() {
	if t.drawn == "" {
		return
	}
	up := ""
	if columns := t.columns(); columns > 0 {
		if rows := (utf8.RuneCountInString(t.drawn) - 1) / columns; rows > 0 {
			up = fmt.Sprintf("\x1b[%dA", rows)
		}
	}
	fmt.Fprintf(t.to, "\r%s\x1b[J", up)
	t.drawn = ""
}

// draw shows the status line. It leaves the last column free, so that the cursor stays in the row.
func (t *Terminal) draw(now time.Time) {
	if t.midLine || len(t.steps) == 0 {
		return
	}
	line := []rune(livingLine(t.steps, now))
	if columns := t.columns(); columns > 0 {
		line = line[:min(len(line), columns-1)]
	}
	t.drawn = string(line)
	fmt.Fprint(t.to, t.drawn)
}

// livingLine tells of one step: the first that says what it does, or else the last that began. The
// time comes first, since a narrow terminal cuts off the end.
func livingLine(steps []step, now time.Time) string {
	s := steps[len(steps)-1]
	if at := slices.IndexFunc(steps, func(s step) bool { return s.does != "" }); at >= 0 {
		s = steps[at]
	}
	top, _, _ := strings.Cut(s.phase, "/")
	line := fmt.Sprintf("[%s] %.1f s", top, max(now.Sub(s.since), 0).Seconds())
	if s.limit > 0 {
		line += fmt.Sprintf(" of %s", s.limit)
	}
	if s.begun > 1 {
		line += fmt.Sprintf(", %d of %d done", s.done, s.begun)
	}
	if s.does != "" {
		line += ": " + untrusted.Line(redact.Message(s.does))
	}
	return line
}
