package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/engine"
)

// screen is a terminal as far as Terminal needs it: text, new lines, \r, cursor up and the erasing
// of all that follows the cursor.
type screen struct {
	columns int
	rows    [][]rune
	row, at int
}

var sequence = regexp.MustCompile(`^\x1b\[(\d*)([AJ])`)

func (s *screen) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		if m := sequence.FindStringSubmatch(rest); m != nil {
			if n, _ := strconv.Atoi(m[1]); m[2] == "A" {
				s.row -= n
			} else {
				s.rows = append(s.rows[:s.row], s.rows[s.row][:s.at])
			}
			rest = rest[len(m[0]):]
			continue
		}
		r := []rune(rest)[0]
		rest = rest[len(string(r)):]
		s.put(r)
	}
	return len(text), nil
}

func (s *screen) put(r rune) {
	if len(s.rows) == 0 {
		s.rows = [][]rune{nil}
	}
	switch r {
	case '\r':
		s.at = 0
		return
	case '\n':
		s.row, s.at = s.row+1, 0
	default:
		if s.at == s.columns {
			s.row, s.at = s.row+1, 0
		}
	}
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
	if r != '\n' {
		s.rows[s.row] = append(s.rows[s.row][:s.at], r)
		s.at++
	}
}

// resize wraps the rows again, as terminals do.
func (s *screen) resize(columns int) {
	text := s.String()
	*s = screen{columns: columns}
	fmt.Fprint(s, text)
}

func (s *screen) String() string {
	var lines []string
	for _, row := range s.rows {
		lines = append(lines, string(row))
	}
	return strings.Join(lines, "\n")
}

// never sends no tick.
func never(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func TestLivingLine(t *testing.T) {
	s := &screen{columns: 60}
	term := NewTerminal(s, func() int { return s.columns }, never)
	defer term.Close()
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	draw := func(d time.Duration) {
		term.mu.Lock()
		defer term.mu.Unlock()
		term.tick = at(d)
		term.erase()
		term.draw(term.tick)
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { fmt.Fprintln(term, "[certs] first") }, "[certs] first\n"},
		{func() {
			term.observe(engine.Event{Kind: engine.Started, Phase: "wait-control-plane", Time: start})
			draw(time.Second)
		}, "[certs] first\n[wait-control-plane] 1.0 s"},
		{func() { fmt.Fprintln(term, "[certs] second"); draw(2 * time.Second) },
			"[certs] first\n[certs] second\n[wait-control-plane] 2.0 s"},
		{func() {
			term.observe(engine.Event{Kind: engine.Waiting, Phase: "wait-control-plane",
				Text: "kube-apiserver", Time: at(2 * time.Second), Limit: 4 * time.Minute})
			draw(5 * time.Second)
		}, "[certs] first\n[certs] second\n" +
			"[wait-control-plane] 3.0 s of 4m0s: waiting for kube-apiser"},
		{func() { s.resize(30); draw(6 * time.Second) }, "[certs] first\n[certs] second\n" +
			"[wait-control-plane] 4.0 s of"},
		{func() { fmt.Fprint(term, "Continue? [y/N]: "); draw(7 * time.Second) },
			"[certs] first\n[certs] second\nContinue? [y/N]: "},
		{func() { fmt.Fprintln(term, "y"); term.Close() },
			"[certs] first\n[certs] second\nContinue? [y/N]: y\n"},
	} {
		step.do()
		if got := s.String(); got != step.want {
			t.Fatalf("the screen shows\n%s\nwant\n%s", got, step.want)
		}
	}
}

func TestLivingLineCountsChanges(t *testing.T) {
	var b bytes.Buffer
	term := NewTerminal(&b, func() int { return 0 }, never)
	defer term.Close()
	now := time.Now()
	line := func() string { return livingLine(term.steps, now.Add(2*time.Second)) }
	for i := range 3 {
		term.observe(engine.Event{Kind: engine.Changing, Phase: "preflight", Time: now,
			Text: fmt.Sprintf("pull image %d", i)})
	}
	term.observe(engine.Event{Kind: engine.Did, Phase: "preflight", Time: now})
	if got, want := line(), "[preflight] 2.0 s, 1 of 3 done: pull image 0"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
	term.observe(engine.Event{Kind: engine.Finished, Phase: "preflight", Time: now})
	if len(term.steps) != 0 {
		t.Errorf("a phase that is over is still shown: %v", term.steps)
	}
}

// What a phase deferred is done in a later one, and no longer shown than it takes.
func TestLivingLineForgetsDeferredChanges(t *testing.T) {
	term := NewTerminal(io.Discard, func() int { return 0 }, never)
	defer term.Close()
	phases := func() (all []string) {
		for _, s := range term.steps {
			all = append(all, s.phase)
		}
		return all
	}
	now := time.Now()
	for _, c := range []struct {
		kind  engine.Kind
		phase string
		want  []string
	}{
		{engine.Started, "wait-control-plane", []string{"wait-control-plane"}},
		{engine.Changing, "control-plane/scheduler", []string{"wait-control-plane", "control-plane/scheduler"}},
		{engine.Did, "control-plane/scheduler", []string{"wait-control-plane"}},
		{engine.Waiting, "cluster-admin", []string{"wait-control-plane", "cluster-admin"}},
		{engine.Waited, "cluster-admin", []string{"wait-control-plane"}},
		{engine.Did, "control-plane", []string{"wait-control-plane"}},
	} {
		term.observe(engine.Event{Kind: c.kind, Phase: c.phase, Time: now, Text: "x"})
		if got := phases(); !slices.Equal(got, c.want) {
			t.Fatalf("after %s of %s: steps %q, want %q", c.kind, c.phase, got, c.want)
		}
	}
}

func TestLivingLineShowsNoSecretAndNoControlCharacter(t *testing.T) {
	line := livingLine([]step{{phase: "discovery",
		does: "waiting for a server that says \x1b[2J k3h9wd." + secret}}, time.Now())
	if strings.Contains(line, secret) || strings.Contains(line, "\x1b") {
		t.Errorf("the line is %q", line)
	}
}
