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

// kubeletWatch finds out why the kubelet does not answer: whether it ended, and what it wrote last.
type kubeletWatch struct {
	diagnosis
	lookedAt time.Time
	line     string // the last log line at the look before, if the kubelet had ended then
	cause    error  // the last one found; the kubelet may have been started again since
}

// explain adds to err the last line that the kubelet wrote before it ended, and gives up where another start
// cannot help.
func (w *kubeletWatch) explain(ctx context.Context, r state.Reader, err error) error {
	if err == nil {
		return nil
	}
	if r.Now().Sub(w.lookedAt) >= lookEvery {
		w.lookedAt = r.Now()
		before := w.line
		line, recovered := lastKubeletLine(ctx, r)
		if w.line = line; recovered {
			w.cause = nil
		}
		if line != "" {
			w.cause = fmt.Errorf("the kubelet has ended; its last log line is %s", w.line)
			// The line of an earlier end may stay in the log for a moment after the next one.
			if refuses(w.line) && w.line == before {
				return world.GiveUp(w.cause)
			}
		}
	}
	if w.cause != nil {
		return withCause(w.cause, err)
	}
	return w.diagnosis.explain(ctx, r, err)
}

// lastKubeletLine returns the last line in the kubelet's log, quoted, where the kubelet has ended; empty if it
// runs or if that is not known. It also reports whether the kubelet runs for so long that it has overcome
// what it ended of before.
func lastKubeletLine(ctx context.Context, r state.Reader) (line string, recovered bool) {
	s, err := r.Service(ctx, "kubelet")
	if err != nil || !s.Exists || !s.Since.IsZero() {
		return "", err == nil && !s.Since.IsZero() && r.Now().Sub(s.Since) >= recoveredAfter
	}
	log, err := r.ServiceLog(ctx, "kubelet")
	if err != nil {
		return "", false
	}
	return lastLines(log, 1), false
}

// refuses reports whether the kubelet ended over its settings or the machine it is on: each start ends the
// same way.
func refuses(line string) bool {
	return badArguments(line) || slices.ContainsFunc([]string{
		"failed to load kubelet config file",
		"failed to validate kubelet configuration",
		"is configured to not run on a host using cgroup v1",
		"running with swap on is not supported",
	}, func(sign string) bool { return strings.Contains(line, sign) })
}
