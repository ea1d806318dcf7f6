package reconfiguration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A gate counts as turned off if it was on, by the user or perhaps by default, and is not on any more.
func TestIsGateOff(t *testing.T) {
	for _, c := range []struct {
		now, wanted string
		off         bool
	}{
		{"", "", false},
		{"", "A=true", false},
		{"A=true", "A=true,B=true", false},
		{"A=false", "A=false", false},
		{"A=false", "", false},
		{"A=true", "", true},
		{"A=true", "A=false", true},
		{"", "A=false", true}, // it may be on by default
		{"A=1", "A=T", false},
		{"A=true,B=false", "A=true", false},
	} {
		now, wanted := gateSettings{"kubelet": parseGates(c.now)}, gateSettings{"kubelet": parseGates(c.wanted)}
		if got := isGateOff(now, wanted); got != c.off {
			t.Errorf("from %q to %q: turned off is %t", c.now, c.wanted, got)
		}
	}
}

func TestParseGates(t *testing.T) {
	got := parseGates("A=true, B=0,C,D=perhaps")
	if diff := cmp.Diff(map[string]bool{"A": true, "B": false}, got); diff != "" {
		t.Error(diff)
	}
}
