package laws

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/flow"
)

var update = flag.Bool("update", false, "write the scripts anew")

// The script of a workflow is all it changes and waits for, phase by phase. No other law sees
// the order: whoever alters a script shows in review what comes to happen earlier or later.
func TestEveryWorkflowKeepsToItsScript(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		r := s.on(s.machine(t))
		r.phases = oneByOne(s.phases, func([]flow.Phase) {})
		got := script(r.succeed(t).events)
		file := filepath.Join("testdata", strings.ReplaceAll(s.name, " ", "-")+".script")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := diff(string(want), got); diff != "" {
			t.Errorf("%s says otherwise (-script +run); if the run is right: go test ./test/laws -run Script -update\n%s", file, diff)
		}
	})
}

// script tells the changes and waits of a run without parallel phases.
func script(events []flow.Event) string {
	var b strings.Builder
	phase := ""
	for _, e := range inTurn(events) {
		line := ""
		switch e.Kind {
		case flow.Did:
			line = e.Text
		case flow.Waiting:
			line = "wait for " + e.Text
		default:
			continue
		}
		if e.Phase != phase {
			phase = e.Phase
			fmt.Fprintln(&b, phase)
		}
		fmt.Fprintln(&b, "    "+nameless(line))
	}
	return b.String()
}

// inTurn puts changes that were made side by side into the order in which they were asked for.
func inTurn(events []flow.Event) []flow.Event {
	events = slices.Clone(events)
	for from := 0; from < len(events); {
		to := from + 1
		for to < len(events) && group(events[from]) > 0 && group(events[to]) == group(events[from]) {
			to++
		}
		slices.SortStableFunc(events[from:to], func(a, b flow.Event) int { return cmp.Compare(index(a), index(b)) })
		from = to
	}
	return events
}

func group(e flow.Event) int {
	if len(e.Place) == 0 {
		return 0
	}
	return e.Place[0].Group
}

func index(e flow.Event) int {
	if len(e.Place) == 0 {
		return 0
	}
	return e.Place[0].Index
}
