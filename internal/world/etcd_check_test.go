package world_test

import (
	"context"
	"errors"
	"testing"

	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

func TestAPIServerWithoutEtcd(t *testing.T) {
	unanswered := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		report   string
		question func(context.Context) error
		without  bool
	}{
		"silent, and etcd fails": {"[+]ping ok\n[-]etcd failed: reason withheld\n",
			unanswered, true},
		"silent, and etcd is not read": {"[-]etcd-readiness failed: reason withheld\n", unanswered,
			true},
		"an error that is an answer": {"[-]etcd failed\n",
			func(context.Context) error { return errors.New("forbidden") }, false},
		"an answer": {"[-]etcd failed\n", func(context.Context) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := world.CallWithEtcdCheck(t.Context(),
				func(context.Context) string { return c.report }, c.question)
			if errors.Is(err, world.ErrEtcdUnavailable) != c.without || c.without &&
				len(problem.Hints(err)) == 0 {
				t.Errorf("%v, %q", err, problem.Hints(err))
			}
		})
	}
}

func TestSlowAPIServer(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	err := world.CallWithEtcdCheck(t.Context(),
		func(context.Context) string { close(asked); return "[-]poststarthook/rbac/bootstrap-roles failed\n" },
		func(ctx context.Context) error { <-asked; return ctx.Err() })
	if err != nil {
		t.Error(err)
	}
}
