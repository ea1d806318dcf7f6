package parity

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMain also plays two other parts: what sets up a machine from inside its namespaces, and the
// programs on that machine that are neither of the two compared.
func TestMain(m *testing.M) {
	if part, ok := programs()[filepath.Base(os.Args[0])]; ok {
		os.Exit(part(os.Args[1:]))
	}
	if file := os.Getenv(orders); file != "" {
		os.Exit(inside(file))
	}
	os.Exit(m.Run())
}

// pair is the two programs that are compared.
type pair struct{ peer, ours string }

// compared are the programs that the environment names; without both the test is skipped.
func compared(t *testing.T) pair {
	p := pair{peer: os.Getenv("KUBEADM_PEER"), ours: os.Getenv("KUBEADM")}
	if p.peer == "" || p.ours == "" {
		t.Skip("KUBEADM_PEER and KUBEADM name no two programs to compare: make parity")
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make namespaces")
	}
	return p
}

// TestParity compares all cases, and wants each accepted difference to be there still.
func TestParity(t *testing.T) {
	both, list := compared(t), accepted(t)
	cases := all()
	named := map[string]bool{}
	for _, c := range cases {
		if named[c.name] {
			t.Errorf("two cases are named %s", c.name)
		}
		named[c.name] = true
	}
	t.Run("case", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				compare(t, both, c, list)
			})
		}
	})
	t.Logf("%d cases", len(cases))
	if f := t.Failed(); !f && whole() {
		list.stale(t)
	}
}

// compare runs one case by both and reports what nobody has accepted.
func compare(t *testing.T, both pair, c testCase, list *allowList) {
	theirs, ours := c.run(t, both.peer), c.run(t, both.ours)
	for _, d := range differences(c.facts(t, theirs), c.facts(t, ours)) {
		if !list.accepts(c.name, d) {
			t.Errorf("%s\n\tpeer: %s\n\tours: %s", d.Fact, d.Peer, d.Ours)
		}
	}
	if t.Failed() {
		t.Logf("what they said:\n%s%s", theirs.tell("peer"), ours.tell("ours"))
	}
}
