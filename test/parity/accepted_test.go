package parity

import (
	"flag"
	"os"
	"regexp"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// allowList is accepted.yaml: what may differ, each with its reason.
type allowList struct {
	entries []*allowedDifference
	mu      sync.Mutex
}

// allowedDifference accepts differences. All patterns must match the whole of what they are for; an empty one matches anything,
// but either Peer or Ours must say something, so that only the difference that is meant is accepted.
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
			t.Errorf("accepted.yaml: the entry for %q needs a reason, a fact, and what the peer or ours says", e.Fact)
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

// accepts tells whether an entry covers the difference, and remembers that it was needed.
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

// checkUnused fails for entries that nothing needs any more.
func (l *allowList) checkUnused(t *testing.T) {
	for _, e := range l.entries {
		if !e.used {
			t.Errorf("accepted.yaml: nothing differs any more as in the entry for %q (case %q): remove it", e.Fact, e.Case)
		}
	}
}

// isCompleteRun tells whether all cases ran, so that an entry without a use is one too many.
func isCompleteRun() bool { return flag.Lookup("test.run").Value.String() == "" && !testing.Short() }
