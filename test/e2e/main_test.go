//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"kubeadm/test/nodes"
)

// testSuite holds what all tests share: the programs under test and the shared clusters.
type testSuite struct {
	bundle   string     // directory of the components
	older    string     // directory of the components of the previous minor
	oldest   []string   // those of the minors before it, for the full run
	kubeadm  string     // the program under test
	full     bool       // run the long matrices too
	failed   bool       // some test failed
	sharedHA *haCluster // nil until a test asks for it

	mu     sync.Mutex
	shared *testCluster // nil until a test asks for it
}

var suite testSuite

func TestMain(m *testing.M) {
	suite = testSuite{
		bundle: os.Getenv("KUBEADM_BUNDLE"), older: os.Getenv("KUBEADM_BUNDLE_OLDER"),
		oldest:  filepath.SplitList(os.Getenv("KUBEADM_BUNDLES_OLDEST")),
		kubeadm: os.Getenv("KUBEADM"), full: os.Getenv("KUBEADM_E2E") == "full",
	}
	if suite.bundle == "" || suite.older == "" || suite.kubeadm == "" {
		fmt.Fprintln(os.Stderr,
			"error: KUBEADM_BUNDLE, KUBEADM_BUNDLE_OLDER and KUBEADM must name the components' bundles and the kubeadm to test; make e2e sets them")
		os.Exit(1)
	}
	code := m.Run()
	suite.failed = code != 0
	err := suite.closeSharedHA()
	if suite.shared != nil {
		err = errors.Join(err, suite.shared.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

// inFullRun skips a test of the long matrices in a default run, and says how long it takes.
func inFullRun(t *testing.T, takes string) {
	t.Helper()
	if !suite.full {
		t.Skip("takes " + takes + ": make e2e-full")
	}
}

// closeSharedHA removes the shared cluster of three control planes, if there is one.
func (l *testSuite) closeSharedHA() error {
	if l.sharedHA == nil {
		return nil
	}
	defer func() { l.sharedHA = nil }()
	return l.sharedHA.Close()
}

// sharedOptions are the options of clusters that several tests use.
func sharedOptions() nodes.Options {
	return nodes.Options{
		Bundle: suite.bundle, Kubeadm: suite.kubeadm,
		Keep: func() bool { return suite.failed && os.Getenv("KEEP") == "failure" },
		Log:  func(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) },
	}
}

// sharedCluster returns the cluster of one control plane and one worker that tests share. It
// removes the other shared cluster, since three control planes keep the machine busy.
func sharedCluster(t *testing.T) *testCluster {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if err := suite.closeSharedHA(); err != nil {
		t.Fatal(err)
	}
	if suite.shared == nil {
		c, err := nodes.NewCluster(context.Background(), sharedOptions())
		if err != nil {
			t.Fatal(err)
		}
		suite.shared = &testCluster{Cluster: c}
		if suite.shared.err = suite.shared.addNodes(t.Context()); suite.shared.err == nil {
			suite.shared.err = suite.shared.initAndJoin(t.Context())
		}
	}
	if suite.shared.err != nil {
		t.Fatal("the shared cluster did not come up:", suite.shared.err)
	}
	suite.shared.refreshUploadedCertificates(t, certificateKeyIn(t, suite.shared.initResult.Stdout))
	return suite.shared
}
