package kubeletwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubeadm/internal/manifest"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

const (
	// The log of a running kubelet is read this often, and at first this long after the watch began.
	logInterval = 5 * time.Second
	// A sandbox that could not be created this often with the same error cannot be created. The kubelet
	// tries every ten to fifteen seconds.
	maxSameFailures = 3
)

// podFailures finds the static Pods of the control plane that the kubelet cannot start. A container
// runtime keeps nothing of a sandbox that it could not create: only the kubelet's log says why.
type podFailures struct {
	lookedAt time.Time
	err      error // of the last look
}

// podFailure is what the kubelet logs of a Pod that it could not start.
type podFailure struct {
	pod, action, reason, text string
	times                     int // how often in a row with the same text
}

// look reads what the kubelet has logged since the watch began.
func (p *podFailures) look(ctx context.Context, r state.Reader, socket string, since time.Time) {
	now := r.Now()
	if p.lookedAt.IsZero() {
		p.lookedAt = since
	}
	if since.IsZero() || now.Sub(p.lookedAt) < logInterval {
		return
	}
	p.lookedAt = now
	log, err := r.ServiceLog(ctx, unit, since, logLimit)
	if err != nil {
		return
	}
	p.err = nil
	failures := findPodFailures(log)
	if len(failures) == 0 {
		return
	}
	containers, err := r.Containers(ctx, socket)
	if err != nil {
		return
	}
	for _, f := range failures {
		isStarted := slices.ContainsFunc(containers, func(c state.Container) bool {
			return c.Running && c.Pod == f.pod && c.Namespace == "kube-system"
		})
		if !isStarted {
			p.err = f.error()
			return
		}
	}
}

// error describes the failure. It is permanent if another attempt cannot help.
func (f podFailure) error() error {
	what := fmt.Sprintf("the kubelet cannot start Pod %s: %s", untrusted.Line(f.pod), f.action)
	if f.action == "CreatePodSandbox" {
		what = "the container runtime cannot create the sandbox of Pod " + untrusted.Line(f.pod)
	}
	if f.reason != "" && f.action != "CreatePodSandbox" {
		what += ": " + untrusted.Line(f.reason)
	}
	if f.times > 1 {
		what += fmt.Sprintf(" (%d attempts)", f.times)
	}
	err := &Failure{fmt.Errorf("%s: %s", what, untrusted.Quote(f.text))}
	if f.action == "CreatePodSandbox" && f.times >= maxSameFailures && !mayPass(f.text) {
		return world.Permanent(err)
	}
	return err
}

var (
	syncError = regexp.MustCompile(
		`"Error syncing pod, skipping".* err="((?:[^"\\]|\\.)*)" pod="kube-system/([^"]+)"`)
	// of the kubelet's syncErrors: what it did, for which Pod or container, reason and error
	syncResult = regexp.MustCompile(`(?s)failed to "(\w+)" for "[^"]*" with (\w+): ("(?:[^"\\]|\\.)*")`)
)

// findPodFailures returns the last failure of each static Pod of the control plane that a log of the
// kubelet shows, in text or JSON, in the order in which they failed first. Crashes of containers are
// not among them.
func findPodFailures(log string) (all []podFailure) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "Error syncing pod, skipping") {
			continue
		}
		f, ok := parseSyncError(line)
		if !ok {
			continue
		}
		f.times = 1
		i := slices.IndexFunc(all, func(g podFailure) bool { return g.pod == f.pod })
		if i < 0 {
			all = append(all, f)
			continue
		}
		if f.action == all[i].action && withoutNumbers(f.text) == withoutNumbers(all[i].text) {
			f.times += all[i].times
		}
		all[i] = f
	}
	return all
}

func parseSyncError(line string) (f podFailure, ok bool) {
	var text string
	var logged struct {
		Err string
		Pod struct{ Name, Namespace string }
	}
	if found := syncError.FindStringSubmatch(line); found != nil {
		unquoted, err := strconv.Unquote(`"` + found[1] + `"`)
		if err != nil {
			return f, false
		}
		text, f.pod = unquoted, found[2]
	} else if json.Unmarshal([]byte(line), &logged) == nil && logged.Pod.Namespace == "kube-system" {
		text, f.pod = logged.Err, logged.Pod.Name
	}
	isOurs := slices.ContainsFunc(append(manifest.Components(), manifest.Etcd),
		func(component string) bool { return strings.HasPrefix(f.pod, component+"-") })
	found := syncResult.FindStringSubmatch(text)
	if !isOurs || found == nil || found[2] == "CrashLoopBackOff" || found[2] == "ImagePullBackOff" {
		return f, false
	}
	f.action, f.reason = found[1], found[2]
	inner, err := strconv.Unquote(found[3])
	if err != nil {
		return f, false
	}
	// What gRPC puts before the runtime's own text says nothing.
	if i := strings.LastIndex(inner, " desc = "); i >= 0 {
		inner = inner[i+len(" desc = "):]
	}
	f.text = strings.TrimSpace(inner)
	return f, f.text != ""
}
