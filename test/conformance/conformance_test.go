package conformance

import (
	"maps"
	"slices"
	"testing"
)

func TestParseReport(t *testing.T) {
	const report = `[{"SpecReports": [
	  {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
	  {"ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeType": "It", "LeafNodeText": "should serve [Conformance]", "State": "passed",
	   "NumAttempts": 2},
	  {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "should run", "State": "timedout",
	   "Failure": {"Message": "no answer"}},
	  {"LeafNodeType": "It", "LeafNodeText": "was not selected", "State": "skipped"}]}]`
	r, err := parseReport([]byte(report))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"[sig-network] Services should serve [Conformance]"}; !slices.Equal(r.Passed, want) {
		t.Errorf("passed are %q", r.Passed)
	}
	if !slices.Equal(r.Retried, r.Passed) {
		t.Errorf("passed when run again are %q", r.Retried)
	}
	if want := map[string]string{"[sig-node] Pods should run": "timedout: no answer"}; !maps.Equal(r.Failed, want) {
		t.Errorf("failed are %q", r.Failed)
	}
	if got := r.Unexpected(map[string]string{"[sig-node] Pods should run": "a reason"}); len(got) > 0 {
		t.Errorf("unexpected are %q", got)
	}
	if _, err := parseReport([]byte(`{}`)); err == nil {
		t.Error("an object is no report")
	}
}

func TestExceptionsHaveReasons(t *testing.T) {
	all, err := Exceptions()
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range all {
		if len(reason) < 20 {
			t.Errorf("%s: no reason", name)
		}
	}
}
