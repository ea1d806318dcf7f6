package reconfiguration

import (
	"errors"
	"strings"
	"testing"

	"kubeadm/internal/problem"
)

// An error of an addon names the next command if the change is not taken back.
func TestExplainBroken(t *testing.T) {
	broken := &BrokenAddon{Err: problem.New(errors.New("it crashes"), "look at the Pods")}
	for name, c := range map[string]struct {
		change      State
		err         error
		want        string // in the hints
		isExplained bool   // there are others too
	}{
		"a change":                 {State{}, broken, "look at the Pods", false},
		"an undo":                  {State{Undoes: "1"}, broken, "kubeadm reconfigure undo", true},
		"a change of the endpoint": {State{Endpoint: &EndpointChange{}}, broken, "run the same command", true},
		"an undo of an endpoint":   {State{Undoes: "1", Endpoint: &EndpointChange{}}, broken, "kubeadm reconfigure apply", true},
		"another error":            {State{Undoes: "1"}, problem.New(errors.New("no"), "another hint"), "another hint", false},
	} {
		err := c.change.ExplainBroken(c.err)
		if hints := strings.Join(problem.Hints(err), "\n"); !errors.Is(err, c.err) || !strings.Contains(hints, c.want) ||
			len(problem.Hints(err)) > 1 != c.isExplained {
			t.Errorf("%s: %v, with the hints %q", name, err, hints)
		}
	}
}
