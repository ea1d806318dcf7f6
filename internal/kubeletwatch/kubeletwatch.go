// Package kubeletwatch finds out why this machine's kubelet starts no Pods while a command waits for
// one of them: it exits, or it cannot create the sandbox or a container of a control plane component.
package kubeletwatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/crashlog"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

const (
	unit         = "kubelet"
	lookInterval = time.Second
	logLimit     = 256 << 10 // bytes; a stack trace of all goroutines is that long
	// A kubelet that exited this often, or this often with the same log line, exits at each restart.
	maxExits, maxSameExits = 5, 3
	// One that has run for this long has recovered.
	recoveredAfter = time.Minute
)

// Failure is a cause that a Watch has found.
type Failure struct{ error }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.error }

// IsFailure reports whether an error names a cause that a Watch has found.
func IsFailure(err error) bool {
	_, ok := errors.AsType[*Failure](err)
	return ok
}

// Watch watches the kubelet. A zero Watch names an exit that it finds, counts those that follow, and
// does not read the log of a running kubelet. It is safe for concurrent use.
type Watch struct {
	mu       sync.Mutex
	since    time.Time // exits from here on count
	begun    bool      // a look since Begin has found how often the kubelet was restarted before
	lookedAt time.Time
	exits    uint32 // of the unit at the last look, as systemd counts them since its last start
	last     exit
	total    int // exits that count
	same     int // how many of the last ones had the same log line
	failed   int // looks in a row that found that the kubelet is not restarted
	exitErr  error
	pods     podFailures
}

// exit is how one run of the kubelet ended.
type exit struct {
	state.Exit
	line string // quoted; empty if the log does not say why
}

// Begin lets the watch begin at a time at which the kubelet was started, or got new work. What
// happened before counts no longer.
func (w *Watch) Begin(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.begun, w.last, w.total, w.same, w.failed = at, false, exit{}, 0, 0, 0
	w.exitErr, w.pods = nil, podFailures{}
}

// HasBegun reports whether Begin was called.
func (w *Watch) HasBegun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.since.IsZero()
}

// AddCause adds to the error of a check why the kubelet starts no Pods, if that is known, and makes it
// permanent if a restart cannot help. It asks the machine at most once a second.
func (w *Watch) AddCause(ctx context.Context, r state.Reader, socket string, err error) error {
	if err == nil || world.IsPermanent(err) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := r.Now(); now.Sub(w.lookedAt) >= lookInterval {
		before := w.lookedAt
		w.lookedAt = now
		w.look(ctx, r, socket, before)
	}
	cause := w.exitErr
	if cause == nil {
		cause = w.pods.err
	}
	switch {
	case cause == nil:
		return err
	case world.IsPermanent(cause):
		return cause
	case IsFailure(err):
		return err
	}
	return fmt.Errorf("%w; at the last check: %w", cause, err)
}

// look reads the state of the unit, and what it needs of the log. The look before was at that time.
func (w *Watch) look(ctx context.Context, r state.Reader, socket string, before time.Time) {
	s, err := r.Service(ctx, unit)
	if err != nil || !s.Exists {
		return
	}
	isDown := !s.LastExit.Time.IsZero()
	exits := s.Restarts
	if isDown {
		exits++
	}
	seen := w.exits
	w.exits = exits
	switch {
	case isDown && !s.LastExit.Time.Equal(w.last.Time):
		isCounted := w.begun || !w.since.IsZero() && !s.LastExit.Time.Before(w.since)
		if isCounted || w.since.IsZero() {
			w.addExit(s.LastExit, readCause(ctx, r, s.LastExit.Started), isCounted)
		}
	case isDown && w.last.line == "": // the log may be behind
		w.last.line = readCause(ctx, r, s.LastExit.Started)
	case w.begun && exits > seen: // it was restarted between two looks
		w.addExit(state.Exit{}, readCause(ctx, r, before), true)
	}
	w.begun = true
	if !isDown || s.Active {
		w.failed = 0
	} else {
		w.failed++
	}
	if isRunning := !s.Since.IsZero(); isRunning {
		if r.Now().Sub(s.Since) >= recoveredAfter {
			w.total, w.same, w.last = 0, 0, exit{}
		}
		w.pods.look(ctx, r, socket, w.since)
	}
	w.exitErr = w.describeExit()
}

func (w *Watch) addExit(e state.Exit, line string, isCounted bool) {
	if line != "" && withoutNumbers(line) == withoutNumbers(w.last.line) {
		w.same++
	} else {
		w.same = 1
	}
	if !isCounted {
		w.same = 0
	} else {
		w.total++
	}
	w.last = exit{Exit: e, line: line}
}

// describeExit returns how the kubelet exited last, nil if it did not or has recovered. The error is
// permanent if a restart cannot help.
func (w *Watch) describeExit() error {
	l := w.last
	if l == (exit{}) {
		return nil
	}
	text := "the kubelet exited"
	switch {
	case l.Signal != 0:
		text = fmt.Sprintf("the kubelet was killed by signal %d", l.Signal)
	case !l.Time.IsZero():
		text = fmt.Sprintf("the kubelet exited with code %d", l.Code)
	}
	if w.total > 1 {
		text += fmt.Sprintf(" (%d times)", w.total)
	}
	if l.line != "" {
		text += ": " + l.line
	}
	err := &Failure{errors.New(text)}
	isStopped := w.failed > 1 // it is not restarted
	if w.total > 0 && (isConfigurationError(l.line) || isStopped ||
		!mayPass(l.line) && (w.same >= maxSameExits || w.total >= maxExits)) {
		return world.Permanent(err)
	}
	return err
}

// readCause returns why the kubelet exited, from the lines that it has logged since then.
func readCause(ctx context.Context, r state.Reader, since time.Time) string {
	log, err := r.ServiceLog(ctx, unit, since, logLimit)
	if err != nil {
		return ""
	}
	return crashlog.Cause(log, 1)
}

// isConfigurationError reports whether the kubelet exited because of its settings or this machine:
// it will exit at each restart.
func isConfigurationError(line string) bool {
	return crashlog.IsArgumentError(line) || containsAny(line,
		"failed to load kubelet config file",
		"failed to validate kubelet configuration",
		"unrecognized feature gate",
		"cannot set feature gate",
		"is configured to not run on a host using cgroup v1",
		"running with swap on is not supported")
}

// mayPass reports whether what a line says may end without a change of this machine, as it concerns
// another program that may be restarting.
func mayPass(line string) bool {
	return containsAny(line, "dial tcp", "dial unix", "connection refused", "i/o timeout",
		"TLS handshake timeout", "deadline exceeded", "DeadlineExceeded", "Unavailable", "EOF",
		"no such host", "server misbehaving",
		"is reserved for") // a sandbox that is still being created
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

// withoutNumbers removes times, process IDs and addresses from a log line, so that the same line of
// another run is equal.
func withoutNumbers(line string) string { return number.ReplaceAllString(line, "#") }

var number = regexp.MustCompile(`0x[0-9a-f]+|\b[0-9a-f]{12,}\b|[0-9]+`)
