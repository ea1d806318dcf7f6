package parity

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMain has two further modes: the process that sets a machine up inside of its namespaces, and
// the stub programs on that machine.
func TestMain(m *testing.M) {
	if part, ok := stubPrograms()[filepath.Base(os.Args[0])]; ok {
		os.Exit(part(os.Args[1:]))
	}
	if file := os.Getenv(orderVariable); file != "" {
		os.Exit(runInside(file))
	}
	os.Exit(m.Run())
}

// programPair holds the two programs that are compared.
type programPair struct{ peer, ours string }

// programsToCompare returns the programs that the environment names; without both the test is
// skipped.
func programsToCompare(t *testing.T) programPair {
	p := programPair{peer: os.Getenv("KUBEADM_PEER"), ours: os.Getenv("KUBEADM")}
	if p.peer == "" || p.ours == "" {
		t.Skip("KUBEADM_PEER and KUBEADM must name the programs to compare: make parity")
	}
	if os.Getuid() != 0 {
		t.Skip("creating namespaces needs root")
	}
	return p
}

// TestParity compares all cases, and checks that each allowed difference still exists.
func TestParity(t *testing.T) {
	both, list := programsToCompare(t), loadAllowList(t)
	cases := allCases()
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
				compareCase(t, both, c, list)
			})
		}
	})
	t.Logf("%d cases", len(cases))
	if f := t.Failed(); !f && isCompleteRun() {
		list.checkUnused(t)
	}
}

// compareCase runs a case with both programs and reports the differences that are not allowed.
func compareCase(t *testing.T, both programPair, c testCase, list *allowList) {
	theirs, ours := c.run(t, both.peer), c.run(t, both.ours)
	for _, d := range compareFacts(c.facts(t, theirs), c.facts(t, ours)) {
		if !list.accepts(c.name, d) {
			t.Errorf("%s\n\tpeer: %s\n\tours: %s", d.Fact, d.Peer, d.Ours)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s%s", theirs.format("peer"), ours.format("ours"))
	}
}
