package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/finished"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/journal"
)

// session is one run of a workflow: where it takes place, what it says and how it ends.
type session struct {
	command string // as the user would give it again, without options: "init" or "init phase certs ca"
	phases  []flow.Phase
	sel     flow.Selection
	dryRun  bool
	makes   bool // makes files, so it is remembered, and its dry run keeps copies of them
	text    *report.Text
	ignored []string // warnings of fields that have no effect

	real, world world.World
	store       Journal        // nil where nobody is kept out
	journal     *journal.World // nil where nothing is remembered

	mu      sync.Mutex
	changed bool   // something was altered for real
	failed  string // the phase that failed
}

// session begins a run of the selected phases. The phases that a file leaves out count for a whole workflow only.
func (p *program) session(real world.World, command string, sel flow.Selection, how config.Run) *session {
	s := &session{command: command, sel: sel, dryRun: how.DryRun, text: p.text(how.DryRun), ignored: how.Ignored, real: real, world: real}
	if sel.Only == "" {
		s.sel.Skip = how.SkipPhases
	} else {
		s.command += " phase " + strings.ReplaceAll(sel.Only, "/", " ")
	}
	warn(s.text, how.Warnings)
	return s
}

// whole tells whether the workflow runs and not a single phase of it.
func (s *session) whole() bool { return s.sel.Only == "" }

// finished reports whether this same command has finished on this machine, as the journal tells. Then no phase runs again:
// since that time users may have changed what it made.
func (s *session) finished() bool { return s.whole() && s.journal != nil && s.journal.Finished() }

// showJoinCommand is the phase that shows the closing text of init.
const showJoinCommand = "show-join-command"

// finishedRun is what the journal tells of the run that has finished.
func (s *session) finishedRun() finished.Run {
	run := finished.Run{Recorded: s.journal.Recorded}
	for _, phase := range s.journal.Skipped() {
		checks := phase == "preflight" || phase == showJoinCommand // make nothing that could be missing
		if !checks && !slices.Contains(s.sel.Skip, phase) {
			run.Skipped = append(run.Skipped, phase)
		}
	}
	return run
}

// text renders what a run says.
func (p *program) text(dryRun bool) *report.Text {
	return &report.Text{Out: p.Out, Err: p.Err, Verbosity: p.verbosity, Conditional: dryRun}
}

// warn tells what a configuration gives reason to doubt.
func warn(t *report.Text, warnings []string) {
	for _, w := range warnings {
		t.Emit(flow.Event{Kind: flow.Warned, Phase: "config", Text: w})
	}
}

// within enters the world in which the run takes place, and leaves it when the run is over.
func (p *program) within(ctx context.Context, s *session, n *node.Node, run func(e *flow.Env) error) (err error) {
	if err := flow.Check(s.phases, s.sel); err != nil {
		return err
	}
	enter := p.remember
	if s.dryRun {
		enter = p.preview
	}
	if err := enter(ctx, s, n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := run(p.env(s, n.Local)); err != nil {
		return err
	}
	s.repeatIgnored()
	return nil
}

// repeatIgnored warns again of fields without effect at the end of a whole init or join, whose many
// lines have hidden the first warning.
func (s *session) repeatIgnored() {
	if s.makes && s.whole() {
		warn(s.text, s.ignored)
		s.text.Close()
	}
}

// env is what the phases of a run may use, but for what its command adds.
func (p *program) env(s *session, local node.Local) *flow.Env {
	e := flow.Env{World: s.world, Local: local, Rand: p.Random, Emit: s.emit, Once: afresh}
	e.Tool, _ = p.tool() // was good enough to resolve the intent
	if s.journal != nil {
		e.Undoer = s.journal
	}
	// A single phase that is given again makes up new values, as who asks for it expects.
	if s.journal != nil && s.whole() {
		e.Once = s.journal.Once
	}
	return flow.New(e)
}

// afresh makes a value that nobody keeps.
func afresh(_ context.Context, _ string, make func() (string, error)) (string, error) { return make() }

func (s *session) emit(e flow.Event) {
	s.mu.Lock()
	switch e.Kind {
	case flow.Did:
		s.changed = !s.dryRun
	case flow.Failed:
		s.failed = e.Phase
	}
	s.mu.Unlock()
	s.text.Emit(e)
}

// say tells the user something that no phase says.
func (s *session) say(kind flow.Kind, text string) {
	tag, _, _ := strings.Cut(s.command, " ")
	s.emit(flow.Event{Time: s.real.Now(), Phase: tag, Kind: kind, Text: text})
}

// run brings the selected phases about, and tells what to do next if that fails.
func (s *session) run(ctx context.Context, e *flow.Env) error {
	err := flow.Run(ctx, e, s.phases, s.sel)
	s.text.Close()
	if s.journal == nil {
		return err
	}
	if err == nil {
		return s.journal.End(s.sel.Skip...)
	}
	p := s.advise(err)
	p.Alone = ctx.Err() != nil // who interrupts needs no help with what was being waited for
	return errors.Join(p, s.tidy())
}

// advise adds what helps besides the phase's own advice.
func (s *session) advise(err error) *problem.Problem {
	p := problem.New("", err)
	if other := s.journal.Unfinished(); other != "" {
		p.Hints = append(p.Hints, "an unfinished `kubeadm "+other+"` with other settings left files here: give that command again, or run `kubeadm reset`")
	}
	if s.failed != "preflight" && !s.journal.Finished() && (s.changed || !s.journal.First()) {
		p.Hints = append(p.Hints, "what was done so far stays: give the same command again and it goes on from there")
	}
	return p
}

// tidy leaves no trace of a run that changed nothing.
func (s *session) tidy() error {
	if s.changed || !s.journal.First() {
		return nil
	}
	return s.journal.Forget()
}

// close lets other runs at the machine again.
func (s *session) close() error {
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}
