package cli

import (
	"context"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// restartingAPIServer is a machine whose API server answers only those reads that are retried, as
// one does that restarts just then, and those of a wait, which are repeated anyway.
type restartingAPIServer struct {
	*fake.World
	refused []string
}

func (w *restartingAPIServer) answers(ctx context.Context, what string) error {
	if world.RetryLimit(ctx) > 0 {
		return nil
	}
	w.refused = append(w.refused, what)
	return &url.Error{Op: "Get", URL: "https://192.0.2.10:6443", Err: syscall.ECONNREFUSED}
}

func (w *restartingAPIServer) Object(ctx context.Context,
	ref state.Ref) (*unstructured.Unstructured, error) {
	if err := w.answers(ctx, ref.String()); err != nil {
		return nil, err
	}
	return w.World.Object(ctx, ref)
}

func (w *restartingAPIServer) List(ctx context.Context,
	q state.Query) ([]unstructured.Unstructured, error) {
	if err := w.answers(ctx, q.GVK.Kind); err != nil {
		return nil, err
	}
	return w.World.List(ctx, q)
}

// Every read of the API server that decides what is changed is retried, in every command.
func TestCommandsRetryDuringAPIServerRestart(t *testing.T) {
	s := newTestMachine(t)
	s.Host.World = func() world.World { return &restartingAPIServer{World: s.world} }
	s.world.Files["/init.yaml"] = memory.File{Data: append(quick[:len(quick):len(quick)],
		"controlPlaneEndpoint: 192.0.2.10:6443\n"...), Mode: 0o644}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml", "--upload-certs"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"init --config /init.yaml --upload-certs",
		"token create aaaaaa.0123456789abcdef",
		"token create --print-join-command",
		"token create --print-join-command --upload-certs",
		"token list",
		"token delete aaaaaa",
		"init phase upload-certs --upload-certs",
		"init phase bootstrap-token",
		"init phase upload-config all",
		"init phase mark-control-plane",
		"init phase addon all",
	} {
		if err := s.run(t.Context(), strings.Fields(line)...); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := s.run(t.Context(), "certs", "check-expiration"); err != nil ||
		strings.Contains(s.err.String(), "could not read the certificate settings") {
		t.Errorf("certs check-expiration: %v\n%s", err, &s.err)
	}
}

// countingLock counts how often the lock of the machine is taken and released.
type countingLock struct {
	unlockedJournal
	released *int
}

func (l countingLock) Close() error { *l.released++; return nil }

// A run that fails, or that the user declines, releases the lock of the machine as one that succeeds.
func TestEveryRunReleasesLock(t *testing.T) {
	for _, c := range []struct {
		args  string
		fails bool
	}{
		{"init", false},
		{"init --apiserver-advertise-address=none", true},
		{"init --config /missing.yaml", true},
		{"join 192.0.2.1:6443", true},
		{"reset", true}, // there is no answer to its question
		{"reset --force", false},
		{"upgrade apply v1.37.1", true},
		{"upgrade node", true},
		{"certs renew apiserver", false},
	} {
		t.Run(c.args, func(t *testing.T) {
			s := newTestMachine(t)
			taken, released := 0, 0
			s.Journal = func(string) (Journal, error) {
				taken++
				return countingLock{unlockedJournal{s.journal}, &released}, nil
			}
			err := s.run(t.Context(), strings.Fields(c.args)...)
			if (err != nil) != c.fails || taken == 0 || released != taken {
				t.Errorf("taken %d times, released %d times; %v", taken, released, err)
			}
		})
	}
}
