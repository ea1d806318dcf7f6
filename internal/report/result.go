package report

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/untrusted"
)

// Result is what one run of a command did, as programs read it.
type Result struct {
	metav1.TypeMeta   `json:",inline"`
	Command           string        `json:"command"` // "init", "certs renew all"
	Outcome           Outcome       `json:"outcome"`
	ExitCode          int           `json:"exitCode"`
	Preview           bool          `json:"dryRun"`
	NodeName          string        `json:"nodeName,omitempty"`
	KubernetesVersion string        `json:"kubernetesVersion,omitempty"`
	Start             time.Time     `json:"start"`
	DurationSeconds   float64       `json:"durationSeconds"`
	JoinCommands      []JoinCommand `json:"joinCommands,omitempty"` // one for each token
	Phases            []PhaseResult `json:"phases,omitempty"`       // in the order of their start
	Changes           `json:",inline"`
	Warnings          []Warning `json:"warnings,omitempty"`
	Error             *Failure  `json:"error,omitempty"`
	LogFile           string    `json:"logFile,omitempty"`
}

// Outcome is how a run ended.
type Outcome string

// The outcomes of runs.
const (
	Succeeded   Outcome = "succeeded"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted" // by a signal
)

// OutcomeOf returns the outcome of a run that ended with that error, which may be nil.
func OutcomeOf(err error, interrupted bool) Outcome {
	switch {
	case err == nil:
		return Succeeded
	case interrupted:
		return Interrupted
	}
	return Failed
}

// PhaseResult is how a phase went.
type PhaseResult struct {
	Name            string       `json:"name"` // its address, "certs/ca"
	Outcome         PhaseOutcome `json:"outcome"`
	Message         string       `json:"message,omitempty"` // why it was skipped or failed
	Start           time.Time    `json:"start"`
	DurationSeconds float64      `json:"durationSeconds"`
}

// PhaseOutcome is how a phase ended.
type PhaseOutcome string

// The outcomes of phases. One that was not reached is not listed.
const (
	PhaseDone    PhaseOutcome = "done"
	PhaseSkipped PhaseOutcome = "skipped"
	PhaseFailed  PhaseOutcome = "failed"
)

// Warning is something that the user should check.
type Warning struct {
	Phase   string `json:"phase,omitempty"`
	Check   string `json:"check,omitempty"` // the preflight check that says it
	Message string `json:"message"`
}

// Failure is an error as programs read it.
type Failure struct {
	Phase   string   `json:"phase,omitempty"` // that failed; empty if no phase had begun
	Message string   `json:"message"`         // what the text says after "error: "
	Cause   string   `json:"cause"`           // the end of the chain of errors
	Hints   []string `json:"hints,omitempty"` // what to check or run next
}

// Recorder collects the events of a run for its result.
type Recorder struct {
	mu     sync.Mutex
	result Result
}

// NewRecorder returns a Recorder of a command that starts now.
func NewRecorder(command string, now time.Time) *Recorder {
	return &Recorder{result: Result{
		TypeMeta: metav1.TypeMeta{Kind: "RunResult", APIVersion: apiVersion},
		Command:  command, Start: now.UTC()}}
}

// Emit collects one event.
func (r *Recorder) Emit(e engine.Event) {
	event, ok := newRunEvent(e)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &r.result
	all.Preview = all.Preview || e.Preview
	all.add(event.Changes)
	switch e.Kind {
	case engine.Intent:
		all.NodeName, all.KubernetesVersion = event.NodeName, event.KubernetesVersion
	case engine.Joinable:
		all.JoinCommands = append(all.JoinCommands, *event.JoinCommand)
	case engine.Warned:
		w := Warning{event.Phase, event.Check, event.Message}
		if !slices.Contains(all.Warnings, w) { // some are repeated at the end
			all.Warnings = append(all.Warnings, w)
		}
	case engine.Skipped:
		r.addPhase(event, PhaseSkipped)
	case engine.Finished:
		r.addPhase(event, PhaseDone)
	case engine.Failed:
		r.addPhase(event, PhaseFailed)
	}
}

func (r *Recorder) addPhase(e RunEvent, outcome PhaseOutcome) {
	p := PhaseResult{Name: e.Phase, Outcome: outcome, Message: e.Message, Start: e.Time}
	if e.Start != nil {
		p.Start, p.DurationSeconds = *e.Start, *e.DurationSeconds
	}
	r.result.Phases = append(r.result.Phases, p)
}

// Result returns the result of the run that ends now with that error, which may be nil.
func (r *Recorder) Result(err error, interrupted bool, now time.Time) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.result
	all.Outcome, all.DurationSeconds = OutcomeOf(err, interrupted), now.Sub(all.Start).Seconds()
	// A group ends after the phases in it, but begins before them.
	all.Phases = slices.Clone(all.Phases)
	slices.SortStableFunc(all.Phases, func(a, b PhaseResult) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return strings.Count(a.Name, "/") - strings.Count(b.Name, "/")
	})
	if err != nil {
		all.ExitCode, all.Error = problem.ExitCode(err), newFailure(err)
	}
	return all
}

func newFailure(err error) *Failure {
	f := &Failure{Message: Redact(err.Error()),
		Cause: Redact(strings.Join(rootCauses(err), "\n"))}
	var phase *engine.PhaseError
	if errors.As(err, &phase) {
		f.Phase = phase.Phase
	}
	for _, hint := range problem.Hints(err) {
		f.Hints = append(f.Hints, Redact(hint))
	}
	return f
}

// rootCauses returns the texts at the ends of the chain of errors, each once. The chain ends where a
// text of others was made safe.
func rootCauses(err error) (causes []string) {
	if untrusted.IsSafe(err) {
		return []string{err.Error()}
	}
	below := []error{errors.Unwrap(err)}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		below = many.Unwrap()
	}
	for _, b := range below {
		if b == nil {
			continue
		}
		for _, cause := range rootCauses(b) {
			if !slices.Contains(causes, cause) {
				causes = append(causes, cause)
			}
		}
	}
	if len(causes) == 0 {
		return []string{err.Error()}
	}
	return causes
}
