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
)

// station is a machine in memory, and a user in front of it.
type station struct {
	Host
	world    *fake.World
	journal  *journal.Memory
	env      map[string]string
	out, err bytes.Buffer
}

func newStation(t *testing.T) *station {
	t.Helper()
	return inOrder()
}

// inOrder is a machine that lacks nothing.
func inOrder() *station {
	s := &station{world: fake.New(), journal: &journal.Memory{}, env: map[string]string{}}
	s.world.Paths["kubelet"] = "/usr/bin/kubelet"
	s.Host = Host{
		In: strings.NewReader(""), Out: &s.out, Err: &s.err,
		Getenv:  func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		World:   func() world.World { return s.world },
		Journal: func(string) (Journal, error) { return unlocked{s.journal}, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		Chroot:  func(string) error { return nil },
		Log:     func(int, string) error { return nil },
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"},
	}
	return s
}

func testHost(t *testing.T) Host { return newStation(t).Host }

// run gives one command line.
func (s *station) run(ctx context.Context, args ...string) error {
	s.out.Reset()
	s.err.Reset()
	return Run(ctx, s.Host, args)
}

// unlocked is a journal in memory that nobody else can have locked.
type unlocked struct{ *journal.Memory }

func (unlocked) Close() error { return nil }
