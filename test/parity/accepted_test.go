package parity

import (
	"flag"
	"os"
	"regexp"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// allowList is accepted.yaml: the differences that are allowed, each with its reason.
type allowList struct {
	entries []*allowedDifference
	mu      sync.Mutex
}

// allowedDifference allows differences. All patterns must match the whole text; an empty one
// matches anything, but Peer or Ours must be set, so that only the intended difference is allowed.
type allowedDifference struct {
	Reason string `json:"reason"`
	Case   string `json:"case,omitempty"`
	Fact   string `json:"fact"`
	Peer   string `json:"peer,omitempty"`
	Ours   string `json:"ours,omitempty"`

	patterns [4]*regexp.Regexp
	used     bool
}

func loadAllowList(t *testing.T) *allowList {
	data, err := os.ReadFile("accepted.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l := &allowList{}
	if err := yaml.UnmarshalStrict(data, &l.entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range l.entries {
		if e.Reason == "" || e.Fact == "" || e.Peer == "" && e.Ours == "" {
			t.Errorf("accepted.yaml: the entry for %q needs a reason, a fact, and the value of upstream's or ours", e.Fact)
		}
		for i, p := range []string{e.Case, e.Fact, e.Peer, e.Ours} {
			if p == "" {
				p = "(?s).*"
			}
			if e.patterns[i], err = regexp.Compile(`\A(?:` + p + `)\z`); err != nil {
				t.Fatalf("accepted.yaml: %v", err)
			}
		}
	}
	return l
}

// accepts reports whether an entry allows the difference, and records that the entry was used.
func (l *allowList) accepts(name string, d difference) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := false
	for _, e := range l.entries {
		fits := true
		for i, text := range []string{name, d.Fact, d.Peer, d.Ours} {
			fits = fits && e.patterns[i].MatchString(text)
		}
		if fits {
			e.used, found = true, true
		}
	}
	return found
}

// checkUnused fails for entries that allow no difference any more.
func (l *allowList) checkUnused(t *testing.T) {
	for _, e := range l.entries {
		if !e.used {
			t.Errorf("accepted.yaml: no difference matches the entry for %q (case %q): remove it",
				e.Fact, e.Case)
		}
	}
}

// isCompleteRun reports whether all cases ran, so that every entry must have been used.
func isCompleteRun() bool {
	return flag.Lookup("test.run").Value.String() == "" && !testing.Short()
}
