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

	"kubeadm/internal/engine"
)

var update = flag.Bool("update", false, "rewrite the scripts")

// The script of a workflow lists all its changes and waits, phase by phase. No other law checks
// the order: a changed script shows in a review what happens earlier or later.
func TestWorkflowScripts(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		r := s.newRun(s.machine(t))
		r.phases = serialPhases(s.phases, func([]engine.Phase) {})
		got := renderScript(r.mustSucceed(t).events)
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
		if diff := diffLines(string(want), got); diff != "" {
			t.Errorf("%s differs (-script +run); if the run is right: go test ./test/laws -run Script -update\n%s", file, diff)
		}
	})
}

// renderScript lists the changes and waits of a run without parallel phases.
func renderScript(events []engine.Event) string {
	var b strings.Builder
	phase := ""
	for _, e := range orderByPlace(events) {
		line := ""
		switch e.Kind {
		case engine.Did:
			line = e.Text
		case engine.Waiting:
			line = "wait for " + e.Text
		default:
			continue
		}
		if e.Phase != phase {
			phase = e.Phase
			fmt.Fprintln(&b, phase)
		}
		fmt.Fprintln(&b, "    "+withoutGeneratedNames(line))
	}
	return b.String()
}

// orderByPlace sorts changes that were made in parallel by the order of the requests.
func orderByPlace(events []engine.Event) []engine.Event {
	events = slices.Clone(events)
	for from := 0; from < len(events); {
		to := from + 1
		for to < len(events) && placeGroup(events[from]) > 0 &&
			placeGroup(events[to]) == placeGroup(events[from]) {
			to++
		}
		slices.SortStableFunc(events[from:to],
			func(a, b engine.Event) int { return cmp.Compare(placeIndex(a), placeIndex(b)) })
		from = to
	}
	return events
}

func placeGroup(e engine.Event) int {
	if len(e.Place) == 0 {
		return 0
	}
	return e.Place[0].Group
}

func placeIndex(e engine.Event) int {
	if len(e.Place) == 0 {
		return 0
	}
	return e.Place[0].Index
}
