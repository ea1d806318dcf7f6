// Package run is the life cycle of a command: it takes the machine's lock and reads the journal of
// earlier runs (Open), gathers the facts that an intent is resolved from (Facts), chooses the
// world in which the command runs (Begin), builds the Env of its phases (NewEnv), runs them
// (Execute), and closes everything again (Close).
package run

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/report"
	"kubeadm/internal/world"
	"kubeadm/internal/world/journal"
)

// Host is what a run needs from outside.
type Host struct {
	World world.World
	// Journal opens the journal kept in a directory and locks it until it is closed.
	Journal func(dir string) (Journal, error)
	// Random returns named streams of secret randomness, safe for concurrent use.
	Random func(name string) io.Reader
	// NewKey generates a private key. It is safe for concurrent use.
	NewKey func(pki.Algorithm) (crypto.Signer, error)
	// Getenv looks up an environment variable.
	Getenv func(name string) (value string, ok bool)
	// Version is that of this program, such as "v1.37.1".
	Version string
	// Report renders what the run reports.
	Report *report.Reporter
}

// Journal is a journal's store that must be closed.
type Journal interface {
	journal.Store
	io.Closer
}

// Command says what is run.
type Command struct {
	Name      string // as the user types it: "init"
	Phases    []engine.Phase
	Selection engine.Selection
	// Journaled records the changes, so that a re-run resumes, and makes a dry run keep copies of
	// the files that it would write.
	Journaled bool
	// Repeatable is for commands that find out without a journal what an interrupted run has done.
	// Their dry runs keep copies as well.
	Repeatable bool
	// StartsOver is for a Repeatable command whose re-run does everything again.
	StartsOver bool
	// Unlocked is for commands that change nothing on this machine but its images, or call Lock before
	// they do.
	Unlocked bool
}

// Run is one run of a command. Its methods are called in the order Open, Facts, Begin, NewEnv,
// Execute, Close.
type Run struct {
	host    Host
	command Command
	tool    release.Tool      // the release of this program
	config  config.RunOptions // how to run the command, known from Begin on
	notes   []string          // about kept versions, reported once the world is chosen

	lock    Journal         // nil if the machine is not locked
	paths   node.Paths      // the default ones of a machine that is locked
	past    *journal.Memory // a copy of what earlier runs left; nil without a journal
	isReset bool            // another program has reset the machine since the journal was written

	simulatedPins []string // of the CA of a simulated cluster, in place of those that the user gave

	world   world.World
	journal *journal.World // nil if nothing is recorded
	undoer  engine.Undoer  // nil if nothing can be undone: in a run that changes nothing

	mu          sync.Mutex
	changed     bool // something was changed, other than in a dry run
	failedPhase string
}

// Open locks the machine and reads what earlier runs left in the journal. Only root can do that;
// the preflight checks refuse all other users.
func Open(ctx context.Context, h Host, c Command) (*Run, error) {
	tool, err := release.ParseTool(h.Version)
	if err != nil {
		return nil, err
	}
	r := &Run{host: h, command: c, tool: tool, world: h.World}
	if c.Unlocked {
		return r, nil
	}
	if err := r.Lock(ctx); err != nil {
		return nil, err
	}
	if c.Journaled && r.lock != nil {
		if err := r.readPast(ctx); err != nil {
			return nil, errors.Join(err, r.unlock())
		}
	}
	return r, nil
}

// Lock locks the machine until the run is closed, and makes the run keep a log.
func (r *Run) Lock(ctx context.Context) error {
	if r.host.Report.Log != nil {
		r.host.Report.Log.Enable()
	}
	host, err := r.host.World.Host(ctx)
	if err != nil || host.UserID != 0 {
		return err
	}
	r.paths = host.Platform.Paths()
	r.lock, err = r.host.Journal(r.paths.Journal())
	return err
}

// readPast copies the journal. It counts as empty if another program has reset the machine since a
// run of this command finished.
func (r *Run) readPast(ctx context.Context) (err error) {
	if r.past, err = journal.Copy(r.lock); err != nil || !r.IsWhole() {
		return err
	}
	recorded, ok, err := journal.LastFinished(r.past, r.command.Name)
	if err != nil || !ok {
		return err
	}
	r.isReset, err = isMachineReset(ctx, r.host.World, r.paths, recorded)
	if err != nil || !r.isReset {
		return err
	}
	return r.past.Clear()
}

// Facts gathers what the intent of this run is resolved from.
func (r *Run) Facts(ctx context.Context, needs Needs) (config.Facts, error) {
	facts, err := r.host.Facts(ctx, needs)
	if r.past != nil && r.IsWhole() {
		facts.KeptVersion = r.keptVersion
	}
	return facts, err
}

// Begin chooses the world for the resolved intent: the real machine, with a journal if the command
// is journaled, or a preview if it is a dry run. The journal of a machine that another program has
// reset is cleared.
func (r *Run) Begin(ctx context.Context, n *node.Node, how config.RunOptions) error {
	r.config = how
	if r.IsWhole() {
		r.command.Selection.Skip = how.SkipPhases // a single phase runs even if the file skips it
	}
	r.emitIntent(n)
	if err := engine.Check(r.command.Phases, r.command.Selection); err != nil {
		return err
	}
	if how.DryRun {
		return r.enterPreview(ctx, n)
	}
	if r.past == nil {
		return r.openUndoList()
	}
	if r.isReset {
		if err := r.lock.Clear(); err != nil {
			return fmt.Errorf("clearing the journal: %w", err)
		}
	}
	return r.openJournal(r.lock, n)
}

// NewEnv completes the Env with everything that does not depend on the command. An Emit that is
// set stays.
func (r *Run) NewEnv(e engine.Env) *engine.Env {
	e.World, e.Tool, e.Rand, e.Once = r.world, r.tool, r.host.Random, r.once()
	e.Undoer = r.undoer
	if e.Emit == nil {
		e.Emit = r.emit
	}
	return engine.New(e)
}

// Discover finds the cluster that this machine joins. In an offline dry run that is the simulated
// one: its CA takes the place of the pinned one here and nowhere else.
func (r *Run) Discover(ctx context.Context, e *engine.Env) (*node.Node, error) {
	searching := *e
	if r.simulatedPins != nil {
		searching.Local.Discovery.CACertHashes = r.simulatedPins
	}
	n, err := discovery.Node(ctx, &searching)
	if err == nil {
		n.Discovery = e.Local.Discovery
		r.emitIntent(n)
	}
	return n, err
}

// Execute runs the selected phases of the command and reports what to do next if one fails.
func (r *Run) Execute(ctx context.Context, e *engine.Env) error {
	return r.ExecutePhases(ctx, e, r.command.Phases, r.command.Selection)
}

// ExecutePhases is Execute with other phases than the command's.
func (r *Run) ExecutePhases(ctx context.Context, e *engine.Env, phases []engine.Phase,
	sel engine.Selection) error {
	err := engine.Run(ctx, e, phases, sel)
	r.host.Report.Close()
	if err == nil && r.journal != nil {
		return r.journal.End(sel.Skip...)
	}
	if err == nil {
		return nil
	}
	p := problem.New(err)
	// an interrupted user needs no help with what the run was waiting for
	p.Alone = ctx.Err() != nil
	const resume = "everything done so far is kept: re-run the command to resume"
	if r.journal == nil {
		if r.command.Repeatable && r.changed && !r.command.StartsOver && !problem.IsUndone(err) {
			p.Hints = []string{resume}
			return p
		}
		return err
	}
	leavesTrace := r.changed || !r.journal.First
	if other := r.journal.Unfinished; other != "" {
		p.Hints = append(p.Hints,
			"an unfinished \"kubeadm "+other+
				"\" with other settings left files here: re-run that command, or remove them: kubeadm reset")
	}
	if leavesTrace && r.failedPhase != string(phaseindex.Preflight) && !r.journal.Finished {
		p.Hints = append(p.Hints, resume)
	}
	if leavesTrace {
		return p
	}
	if p.Alone {
		p.Hints = append(p.Hints, "nothing was changed: re-run the command")
	}
	return errors.Join(p, r.journal.Forget()) // a run that changed nothing leaves no trace
}

// RepeatWarnings warns again of configuration fields without effect. The output of a whole init or
// join is long enough to hide the first warning.
func (r *Run) RepeatWarnings() {
	if r.IsWhole() {
		r.Warn(r.config.Ignored...)
		r.host.Report.Close()
	}
}

// Close shows what is left to show and releases the lock of the machine.
func (r *Run) Close() error {
	r.host.Report.Close()
	return r.unlock()
}

func (r *Run) unlock() error {
	if r.lock == nil {
		return nil
	}
	lock := r.lock
	r.lock = nil
	return lock.Close()
}

// IsWhole reports whether the whole workflow runs and not a single phase of it.
func (r *Run) IsWhole() bool { return r.command.Selection.Only == "" }

// IsDryRun reports whether nothing is changed.
func (r *Run) IsDryRun() bool { return r.config.DryRun }

// World is the world in which the command runs, from Begin on.
func (r *Run) World() world.World { return r.world }

// Runs reports whether the phase with that address is selected.
func (r *Run) Runs(a phaseindex.Address) bool { return r.command.Selection.Runs(string(a)) }

// Finished reports whether this same command has finished on this machine, according to the
// journal. Then no phase runs again: users may have changed since what the command created.
func (r *Run) Finished() bool { return r.IsWhole() && r.journal != nil && r.journal.Finished }

// FinishedRun is what the journal records of the run that has finished: recorded reports whether it
// created a target, and skipped are the phases that it skipped and that are selected now.
func (r *Run) FinishedRun() (recorded func(target string) bool, skipped []string) {
	for _, phase := range r.journal.Skipped {
		createsNothing := phase == string(phaseindex.Preflight) ||
			phase == string(phaseindex.ShowJoinCommand)
		if !createsNothing && !slices.Contains(r.command.Selection.Skip, phase) {
			skipped = append(skipped, phase)
		}
	}
	return r.journal.Recorded, skipped
}

// Name is the first word of the command.
func (r *Run) Name() string {
	first, _, _ := strings.Cut(r.command.Name, " ")
	return first
}

// Emit reports an event of the command itself, not of one of its phases.
func (r *Run) Emit(kind engine.Kind, text string) {
	r.emit(engine.Event{Time: r.host.World.Now(), Phase: r.Name(), Kind: kind, Text: text})
}

// Warn warns of what the configuration says.
func (r *Run) Warn(warnings ...string) {
	for _, w := range warnings {
		r.emit(engine.Event{Time: r.host.World.Now(), Kind: engine.Warned, Phase: "config", Text: w})
	}
}

// emitIntent reports which node this run makes.
func (r *Run) emitIntent(n *node.Node) {
	r.emit(engine.Event{Time: r.host.World.Now(), Kind: engine.Intent, Phase: r.Name(), Node: n})
}

func (r *Run) emit(e engine.Event) {
	e.Preview = r.config.DryRun
	r.mu.Lock()
	switch e.Kind {
	case engine.Did:
		r.changed = !r.config.DryRun
	case engine.Failed:
		r.failedPhase = e.Phase
	}
	r.mu.Unlock()
	r.host.Report.Emit(e)
}

// openJournal opens the journal of runs of the same command with the same settings.
func (r *Run) openJournal(store journal.Store, n *node.Node) error {
	command := r.command.Name // as the user would type it again, without options
	if !r.IsWhole() {
		command += " phase " + strings.ReplaceAll(r.command.Selection.Only, "/", " ")
	}
	intent, err := hashSettings(fixedSettingsOf(n))
	if err != nil {
		return err
	}
	details, err := hashSettings(outcomeOf(n))
	if err != nil {
		return err
	}
	id := journal.RunID{Command: command, Intent: intent, Details: details}
	if r.journal, err = journal.Open(r.host.World, store, id); err != nil {
		return err
	}
	r.world, r.undoer = r.journal, r.journal
	return nil
}

// openUndoList makes the phases that ask for it undoable in a run that records nothing on disk.
func (r *Run) openUndoList() error {
	list, err := journal.Open(r.world, &journal.Memory{}, journal.RunID{Command: r.command.Name})
	if err != nil {
		return err
	}
	r.world, r.undoer = list, list
	return nil
}
