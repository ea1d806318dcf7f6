//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kubeadm/test/nodes"
)

// testSuite holds what all tests share: the programs under test, the limit of tests that run at once,
// and the shared clusters.
type testSuite struct {
	bundle  string   // directory of the components
	older   string   // directory of the components of the previous minor
	oldest  []string // those of the minors before it, for the full run
	kubeadm string   // the program under test
	full    bool     // run the long matrices too

	slots    *slots
	shared   shared[*testCluster] // of one control plane and one worker
	sharedHA shared[*haCluster]   // of three control planes and two workers
}

var suite testSuite

func TestMain(m *testing.M) {
	suite = testSuite{
		bundle: os.Getenv("KUBEADM_BUNDLE"), older: os.Getenv("KUBEADM_BUNDLE_OLDER"),
		oldest:  filepath.SplitList(os.Getenv("KUBEADM_BUNDLES_OLDEST")),
		kubeadm: os.Getenv("KUBEADM"), full: os.Getenv("KUBEADM_E2E") == "full",
		shared:   shared[*testCluster]{create: createSharedCluster},
		sharedHA: shared[*haCluster]{create: createSharedHACluster},
	}
	if suite.bundle == "" || suite.older == "" || suite.kubeadm == "" {
		fmt.Fprintln(os.Stderr,
			"error: KUBEADM_BUNDLE, KUBEADM_BUNDLE_OLDER and KUBEADM must name the components' bundles and the kubeadm to test; make e2e sets them")
		os.Exit(1)
	}
	var err error
	if suite.slots, err = newSlots(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// inFullRun skips a test of the long matrices in a default run, and says how long it takes.
func inFullRun(t *testing.T, takes string) {
	t.Helper()
	if !suite.full {
		t.Skip("takes " + takes + ": make e2e-full")
	}
}

// sharedCluster returns the cluster of one control plane and one worker that tests share, when it
// is this test's turn.
func sharedCluster(t *testing.T) *testCluster {
	t.Helper()
	s := suite.shared.forTest(t)
	s.refreshUploadedCertificates(t, certificateKeyIn(t, s.initResult.Stdout))
	return s
}

func createSharedCluster(ctx context.Context, o nodes.Options) (*testCluster, error) {
	c, err := nodes.NewCluster(context.Background(), o)
	if err != nil {
		return nil, err
	}
	s := &testCluster{Cluster: c}
	if err := s.addNodes(ctx); err != nil {
		return s, err
	}
	return s, s.initAndJoin(ctx)
}
