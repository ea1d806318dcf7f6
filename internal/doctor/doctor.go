// Package doctor diagnoses this machine, the node that it is, and the cluster that it belongs to. Its
// checks are those of package preflight and more of the same form; they only read, run all at once and
// are bounded in time. A check that cannot be made on this machine says why. The package also plans
// the safe fixes, and collects a support bundle without secrets.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/preflight"
	"kubeadm/internal/redact"
	"kubeadm/internal/report"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Group is what a check is about.
type Group string

// The groups, in the order in which they are reported.
const (
	Host    Group = "host"    // the machine, whether it is a node or not
	Node    Group = "node"    // what makes it a node: kubelet, static Pods, certificates
	Cluster Group = "cluster" // what all nodes share
)

// Groups lists the groups in order.
func Groups() []Group { return []Group{Host, Node, Cluster} }

// Severity says how bad a finding is.
type Severity string

// An error keeps something from working, now or at the next step. A warning is to be looked at.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Diagnosis is the result of all checks.
type Diagnosis struct {
	metav1.TypeMeta `json:",inline"`
	Machine         Machine            `json:"machine"`
	Findings        []Finding          `json:"findings"`
	NotChecked      []NotChecked       `json:"notChecked"`
	Passed          map[Group][]string `json:"passed"` // names of the checks without a finding
}

// Machine is what was examined.
type Machine struct {
	Name string `json:"name"` // of the Node, or the host name
	// Role is "control-plane", "worker", or "none" for a machine that is not a node.
	Role       string `json:"role"`
	Kubeconfig string `json:"kubeconfig,omitempty"` // with which the cluster was read
}

// Finding is one thing that is wrong.
type Finding struct {
	Group    Group    `json:"group"`
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`               // what is wrong, and with what
	Evidence string   `json:"evidence,omitempty"` // what was read; may have several lines
	Why      string   `json:"why,omitempty"`      // what follows from it
	Remedy   string   `json:"remedy,omitempty"`   // what to do
	Command  string   `json:"command,omitempty"`  // the command that does it, if there is a single one
	Fixable  bool     `json:"fixable"`            // --fix does it

	changes []change.Change
}

// NotChecked is a check that could not be made.
type NotChecked struct {
	Group  Group  `json:"group"`
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// HasErrors reports whether a finding is an error.
func (d Diagnosis) HasErrors() bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Severity == Error })
}

// check is a preflight check in its group.
type check struct {
	group Group
	preflight.Check
}

// inGroup puts checks into a group.
func inGroup(g Group, checks ...preflight.Check) []check {
	var list []check
	for _, c := range checks {
		list = append(list, check{g, c})
	}
	return list
}

// Limits of one check. One that has been canceled may still report what it has found.
const (
	checkLimit = 4 * time.Second
	grace      = 400 * time.Millisecond
)

// Diagnose runs all checks at once. It takes at most five seconds. The identity is that of the
// kubeconfig that the user has named; without one it is that of admin.conf or kubelet.conf. The error
// is that of the context.
func Diagnose(ctx context.Context, e *engine.Env, as state.Identity) (Diagnosis, error) {
	m := examine(ctx, e, as)
	checks := slices.Concat(inGroup(Host, hostChecks(m)...), inGroup(Node, nodeChecks(m)...),
		inGroup(Cluster, clusterChecks(m)...))
	results := make([]chan outcome, len(checks))
	for i, c := range checks {
		results[i] = make(chan outcome, 1)
		go func() { results[i] <- c.run(ctx, e.World) }()
	}
	d := Diagnosis{Machine: m.describe(), Findings: []Finding{}, NotChecked: []NotChecked{},
		Passed: map[Group][]string{}}
	for i, c := range checks {
		d.add(c, <-results[i])
	}
	return d, context.Cause(ctx)
}

// outcome is what one check reported.
type outcome struct {
	found   []preflight.Finding
	skipped string
}

// run runs the check. It does not wait for one that ignores the end of its context, as a read of a
// file on a dead network file system does.
func (c check) run(ctx context.Context, r state.Reader) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit,
		fmt.Errorf("no answer within %s", checkLimit))
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		rep := preflight.NewReport(c.Name)
		c.Run(ctx, r, rep)
		done <- outcome{rep.Result(nil).Findings, rep.Skipped()}
	}()
	select {
	case o := <-done:
		return o
	case <-ctx.Done():
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	select {
	case o := <-done:
		return o
	case <-late.Done():
		return outcome{skipped: context.Cause(ctx).Error()}
	}
}

// showable returns text of any origin without what looks like a secret, and with control characters
// escaped.
func showable(text string) string { return untrusted.Screen(redact.Text(text)) }

// add adds the outcome of a check. All texts lose what looks like a secret.
func (d *Diagnosis) add(c check, o outcome) {
	found := 0
	for _, f := range o.found {
		if f.NotMade != "" {
			o.skipped = f.Text + ": " + f.NotMade
			continue
		}
		found++
		severity := Error
		if f.Severity == preflight.Warning {
			severity = Warning
		}
		d.Findings = append(d.Findings, Finding{Group: c.group, Check: c.Name, Severity: severity,
			Text: showable(f.Text), Evidence: strings.TrimSpace(showable(f.Evidence)),
			Why: c.Why, Remedy: report.Redact(f.Remedy), Command: report.Redact(f.Command),
			Fixable: len(f.Changes) > 0, changes: f.Changes})
	}
	switch {
	case o.skipped != "":
		d.NotChecked = append(d.NotChecked, NotChecked{c.group, c.Name, showable(o.skipped)})
	case found == 0 && !slices.Contains(d.Passed[c.group], c.Name):
		d.Passed[c.group] = append(d.Passed[c.group], c.Name)
	}
}
