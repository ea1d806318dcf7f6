package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"

	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/worldtest/keys"
)

// testMachine is a machine in memory and the command line on it.
type testMachine struct {
	Host
	world    *fake.World
	journal  *journal.Memory
	env      map[string]string
	out, err bytes.Buffer
}

func newTestMachine(t *testing.T) *testMachine {
	t.Helper()
	return newDefaultMachine()
}

// newForeignMachine is a machine with other keys than all others have: its cluster has another CA.
func newForeignMachine(t *testing.T) *testMachine {
	t.Helper()
	s := newDefaultMachine()
	s.NewKey = new(keys.Pool).ForMachine()
	return s
}

// sharedKeys are the keys of the other machines: generating them was half of the time of these tests.
var sharedKeys keys.Pool

// newDefaultMachine is a machine on which every command can succeed.
func newDefaultMachine() *testMachine {
	s := &testMachine{world: fake.New(), journal: &journal.Memory{}, env: map[string]string{}}
	s.world.Paths["kubelet"] = "/usr/bin/kubelet"
	s.Host = Host{
		In: strings.NewReader(""), Out: &s.out, Err: &s.err,
		Getenv:  func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		World:   func() world.World { return s.world },
		Journal: func(string) (Journal, error) { return unlockedJournal{s.journal}, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		NewKey:  sharedKeys.ForMachine(),
		Chroot:  func(string) error { return nil },
		Log:     func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"},
	}
	return s
}

func testHost(t *testing.T) Host { return newTestMachine(t).Host }

// run runs one command line.
func (s *testMachine) run(ctx context.Context, args ...string) error {
	s.out.Reset()
	s.err.Reset()
	return Run(ctx, s.Host, args)
}

// unlockedJournal is a journal in memory without a lock.
type unlockedJournal struct{ *journal.Memory }

func (unlockedJournal) Close() error { return nil }
