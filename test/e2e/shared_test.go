//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// slots limits how many tests run at once to what -parallel says. The limit of the testing package
// would count tests of a shared cluster while they wait for their turn.
type slots struct {
	mu    sync.Mutex
	freed *sync.Cond
	free  int // below zero while shared clusters have taken more than there are
}

// newSlots takes over the limit of -parallel from the testing package.
func newSlots() (*slots, error) {
	flag.Parse()
	limit, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		return nil, err
	}
	s := &slots{free: limit}
	s.freed = sync.NewCond(&s.mu)
	return s, flag.Set("test.parallel", "1000")
}

// await waits until a slot is free and takes it.
func (s *slots) await() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.free <= 0 {
		s.freed.Wait()
	}
	s.free--
}

// take takes a slot at once, even if that makes them fewer than none.
func (s *slots) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free--
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.freed.Signal()
}

// parallel lets a test run beside others, as many as -parallel says. A test whose subtests call it
// calls t.Parallel itself: it would keep a slot from them.
func parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	begin := time.Now()
	suite.slots.await()
	t.Cleanup(suite.slots.release)
	logTurn(t, begin)
}

// logTurn says how much of a test's time was waiting for others.
func logTurn(t *testing.T, begin time.Time) {
	t.Helper()
	if waited := time.Since(begin); waited > time.Second {
		t.Logf("waited %s for other tests", waited.Round(time.Second))
	}
}

// shared is a cluster that tests use one after another, in the order of their declaration, while
// other tests run beside them. Together they count as one test, which begins first: it is the
// longest. The first one of them creates the cluster; it is removed after the last one, and
// replaced after one that fails.
type shared[C interface {
	*testCluster | *haCluster
	Close() error
}] struct {
	create func(context.Context, nodes.Options) (C, error) // may return a cluster with an error

	mu      sync.Mutex
	turns   *sync.Cond
	asked   int // tests that asked for the cluster
	ended   int // those of them that have ended
	cluster C   // nil until the first one's turn, and after a failure
	err     error
	failed  bool // the last test of the cluster failed
}

// forTest returns the cluster when it is the test's turn, which ends with the test. It must be the
// first call of a test.
func (s *shared[C]) forTest(t *testing.T) C {
	t.Helper()
	s.mu.Lock()
	if s.turns == nil {
		s.turns = sync.NewCond(&s.mu)
	}
	turn := s.asked
	s.asked++
	s.mu.Unlock()
	if turn == 0 {
		suite.slots.take()
	}
	t.Parallel()

	begin := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ended < turn {
		s.turns.Wait()
	}
	logTurn(t, begin)
	t.Cleanup(func() { s.endTurn(t) })
	if s.cluster == nil && s.err == nil {
		s.cluster, s.err = s.create(t.Context(), nodes.Options{
			Bundle: suite.bundle, Kubeadm: suite.kubeadm,
			Keep: func() bool { return s.failed && os.Getenv("KEEP") == "failure" },
			// The cluster outlives this test.
			Log: func(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) },
		})
	}
	if s.err != nil {
		t.Fatal("the shared cluster did not come up:", s.err)
	}
	return s.cluster
}

// endTurn lets the next test begin.
func (s *shared[C]) endTurn(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	isLast := s.ended == s.asked
	if isLast || t.Failed() {
		if s.cluster != nil {
			s.failed = t.Failed()
			if err := s.cluster.Close(); err != nil {
				t.Error(err)
			}
		}
		s.cluster, s.err = nil, nil
	}
	if isLast {
		s.asked, s.ended = 0, 0
		suite.slots.release()
	}
	s.turns.Broadcast()
}
