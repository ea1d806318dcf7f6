//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"kubeadm/test/nodes"
)

// bench is what all tests have in common: the programs under test and the cluster that tests share which leave it as it is.
type laboratory struct {
	bundle  string // directory of the components
	older   string // the same of a release a minor behind
	kubeadm string // the program under test
	full    bool   // run the long matrices too
	failed  bool   // some test failed
	high    *trio  // nil until a test asks for it

	mu   sync.Mutex
	home *site // likewise
}

var lab laboratory

func TestMain(m *testing.M) {
	lab = laboratory{
		bundle: os.Getenv("KUBEADM_BUNDLE"), older: os.Getenv("KUBEADM_BUNDLE_OLDER"), kubeadm: os.Getenv("KUBEADM"), full: os.Getenv("KUBEADM_E2E") == "full",
	}
	if lab.bundle == "" || lab.older == "" || lab.kubeadm == "" {
		fmt.Fprintln(os.Stderr, "error: KUBEADM_BUNDLE, KUBEADM_BUNDLE_OLDER and KUBEADM must name the components' bundles and the kubeadm to test; make e2e sets them")
		os.Exit(1)
	}
	code := m.Run()
	lab.failed = code != 0
	err := lab.closeHigh()
	if lab.home != nil {
		err = errors.Join(err, lab.home.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

// closeHigh removes the shared cluster of three control planes, if there is one.
func (l *laboratory) closeHigh() error {
	if l.high == nil {
		return nil
	}
	defer func() { l.high = nil }()
	return l.high.Close()
}

// sharedOptions are those of clusters that outlive a test.
func sharedOptions() nodes.Options {
	return nodes.Options{
		Bundle: lab.bundle, Kubeadm: lab.kubeadm,
		Keep: func() bool { return lab.failed && os.Getenv("KEEP") == "failure" },
		Log:  func(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) },
	}
}

// home is the cluster that tests share: made by the kubeadm under test, one control plane and one worker, both Ready. The
// other shared cluster goes, since three control planes are never idle.
func home(t *testing.T) *site {
	t.Helper()
	lab.mu.Lock()
	defer lab.mu.Unlock()
	if err := lab.closeHigh(); err != nil {
		t.Fatal(err)
	}
	if lab.home == nil {
		c, err := nodes.NewCluster(context.Background(), sharedOptions())
		if err != nil {
			t.Fatal(err)
		}
		lab.home = &site{Cluster: c}
		if lab.home.err = lab.home.add(t.Context()); lab.home.err == nil {
			lab.home.err = lab.home.form(t.Context())
		}
	}
	if lab.home.err != nil {
		t.Fatal("the shared cluster did not come up:", lab.home.err)
	}
	lab.home.lend(t, keyOf(t, lab.home.initial.Stdout))
	return lab.home
}
