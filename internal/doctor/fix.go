package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Fix is what is done about one finding.
type Fix struct {
	Check, Text string // of the finding
	Changes     []change.Change
	// Risk is what the fix may disturb, if the user must agree to this fix itself.
	Risk string
}

// riskOf returns what a change may disturb.
func riskOf(c change.Change) string {
	switch c := c.(type) {
	case change.SetSwap:
		return "running programs may need the memory"
	case change.SetSysctl:
		if c.Name == "net.ipv6.conf.all.forwarding" {
			return "interfaces with accept_ra=1 lose what they got from router advertisements, such as a default route"
		}
	}
	return ""
}

// Fixes are the fixes of all findings that have one, each change once.
func (d Diagnosis) Fixes() []Fix {
	var all []Fix
	var targets []string
	for _, f := range d.Findings {
		fix := Fix{Check: f.Check, Text: f.Text}
		for _, c := range f.changes {
			if slices.Contains(targets, c.Target()) {
				continue
			}
			targets = append(targets, c.Target())
			fix.Changes = append(fix.Changes, c)
			fix.Risk = cmp.Or(fix.Risk, riskOf(c))
		}
		if len(fix.Changes) > 0 {
			all = append(all, fix)
		}
	}
	return all
}

// Phase is the fix as a phase. If one of its changes fails, those before it are undone.
func (f Fix) Phase() engine.Phase {
	return engine.Phase{
		Name: "doctor", Short: f.Text, OnError: engine.Undo,
		Run: func(ctx context.Context, e *engine.Env) error {
			e.Say("%s", f.Text)
			return e.Do(ctx, f.Changes...)
		},
	}
}

// settleTime is how long what was fixed may take to work: a service that was started, and the static
// Pods that it starts.
const settleTime = 45 * time.Second

// DiagnoseAfter diagnoses until the checks that were fixed pass, or until settleTime has passed. The
// identity is that of Diagnose. Its end does not interrupt the last diagnosis.
func DiagnoseAfter(ctx context.Context, e *engine.Env, as state.Identity,
	done []Fix) (d Diagnosis, err error) {
	_ = e.World.Await(ctx, world.Condition{
		Name: "the fixed checks to pass", Timeout: settleTime,
		Check: func(context.Context, state.Reader) error {
			if d, err = Diagnose(ctx, e, as); err != nil {
				return world.Permanent(err)
			}
			for _, f := range d.Findings {
				if slices.ContainsFunc(done, func(fix Fix) bool { return fix.Check == f.Check }) {
					return fmt.Errorf("check %s: %s", f.Check, f.Text)
				}
			}
			return nil
		}})
	if err == nil {
		err = context.Cause(ctx)
	}
	return d, err // what is not fixed yet, the diagnosis says
}
