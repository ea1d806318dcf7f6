package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// kubeletWatch finds out why the kubelet does not answer: whether it exited, and its last log
// line.
type kubeletWatch struct {
	diagnosis
	lookedAt time.Time
	line     string // its last log line at lookedAt, if it had exited then
	cause    error  // the last one found; the kubelet may have been restarted since
}

// addCause adds the last log line of a kubelet that has exited to err, and gives up if a restart
// cannot help.
func (w *kubeletWatch) addCause(ctx context.Context, r state.Reader, err error) error {
	if err == nil {
		return nil
	}
	if r.Now().Sub(w.lookedAt) >= lookInterval {
		w.lookedAt = r.Now()
		before := w.line
		line, recovered := readLastKubeletLine(ctx, r)
		if w.line = line; recovered {
			w.cause = nil
		}
		if line != "" {
			w.cause = fmt.Errorf("the kubelet has exited; its last log line is %s", w.line)
			// The line of an earlier exit may be the last one for a moment after the next exit.
			if isConfigurationError(w.line) && w.line == before {
				return world.Permanent(w.cause)
			}
		}
	}
	if w.cause != nil {
		return joinCause(w.cause, err)
	}
	return w.diagnosis.addCause(ctx, r, err)
}

// readLastKubeletLine returns the last line of the kubelet's log, quoted, if the kubelet has
// exited; empty if it runs or if that is not known. recovered is true if it has run for
// recoveredAfter.
func readLastKubeletLine(ctx context.Context, r state.Reader) (line string, recovered bool) {
	s, err := r.Service(ctx, "kubelet")
	if err != nil || !s.Exists || !s.Since.IsZero() {
		return "", err == nil && !s.Since.IsZero() && r.Now().Sub(s.Since) >= recoveredAfter
	}
	const limit = 2 << 10 // bytes, enough for the last line
	log, err := r.ServiceLog(ctx, "kubelet", limit)
	if err != nil {
		return "", false
	}
	return lastLines(log, 1), false
}

// isConfigurationError reports whether the kubelet exited because of its settings or this machine:
// it will exit at each restart.
func isConfigurationError(line string) bool {
	return isArgumentError(line) || slices.ContainsFunc([]string{
		"failed to load kubelet config file",
		"failed to validate kubelet configuration",
		"is configured to not run on a host using cgroup v1",
		"running with swap on is not supported",
	}, func(text string) bool { return strings.Contains(line, text) })
}
