package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
)

// newStream is the stream of a run as kubeadm writes it.
func newStream(t *testing.T, err error) *bytes.Buffer {
	t.Helper()
	start := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var to bytes.Buffer
	stream, recorder := &report.Stream{To: &to}, report.NewRecorder("init", start)
	for _, e := range []engine.Event{
		{Time: at(0), Phase: "preflight", Kind: engine.Started},
		{Time: at(1), Phase: "preflight", Kind: engine.Warned, Text: "swap is on"},
		{Time: at(2), Phase: "preflight", Kind: engine.Finished, Start: at(0)},
		{Time: at(2), Phase: "wait-control-plane", Kind: engine.Waiting, Subject: "the API server"},
		{Time: at(3), Kind: engine.Joinable, Join: &engine.JoinCommands{
			Worker: "kubeadm join cluster.example:6443 \\\n\t--token abcdef.0123456789abcdef"}},
	} {
		stream.Emit(e)
		recorder.Emit(e)
	}
	if err := stream.End(recorder.Result(err, false, at(4))); err != nil {
		t.Fatal(err)
	}
	return &to
}

func TestFollow(t *testing.T) {
	refused := errors.New("connection refused")
	failure := &engine.PhaseError{Phase: "wait-control-plane",
		Err: problem.New(fmt.Errorf("no answer: %w", refused), "look at the log")}
	for _, c := range []struct {
		name string
		err  error
		code int
		want []string
	}{
		{"success", nil, 0, []string{"preflight", "2.0 s\n", "warning: swap is on\n",
			"waiting for the API server\n", "kubeadm init succeeded in 4.0 s\n",
			"to add a worker: kubeadm join cluster.example:6443 --token abcdef.0123456789abcdef\n"}},
		{"failure", failure, 1, []string{"kubeadm init failed in 4.0 s\n",
			"phase \"wait-control-plane\": connection refused\n", "  - look at the log\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			code, err := follow(newStream(t, c.err), &out)
			if err != nil || code != c.code {
				t.Errorf("exit code %d, want %d: %v", code, c.code, err)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}

func TestStreamWithoutResult(t *testing.T) {
	whole := newStream(t, nil).String()
	cut := whole[:strings.LastIndex(strings.TrimSpace(whole), "\n")]
	if _, err := follow(strings.NewReader(cut), &strings.Builder{}); err == nil {
		t.Error("a stream without a result is no error")
	}
}
