package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/problem"
)

// ErrEtcdUnavailable means that an API server does not answer requests because etcd does not answer
// it.
var ErrEtcdUnavailable = errors.New(
	"the API server is running, but etcd does not answer it; etcd may have lost its quorum")

// etcdCheckDelay is how long an API server may take for an answer before its health is read.
const etcdCheckDelay = 3 * time.Second

// CallWithEtcdCheck calls request, which sends a request to an API server. If there is no answer
// within three seconds, it reads the server's health with readHealth. If a check of etcd fails
// there, it cancels the request and returns ErrEtcdUnavailable.
func CallWithEtcdCheck(ctx context.Context, readHealth func(context.Context) string,
	request func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(etcdCheckDelay, func() {
		if slices.ContainsFunc(FailedChecks(readHealth(ctx)),
			func(name string) bool { return strings.HasPrefix(name, "etcd") }) {
			cancel(ErrEtcdUnavailable)
		}
	})
	defer timer.Stop()
	err := request(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrEtcdUnavailable) {
		return problem.New(ErrEtcdUnavailable,
			"check on the control plane nodes whether etcd is running: crictl ps -a --name etcd",
			"start the machines of the etcd members that do not answer: a quorum is more than half of all members")
	}
	return err
}

// FailedChecks returns the names of the failed checks in the response of a health endpoint such as
// /readyz?verbose.
func FailedChecks(report string) (names []string) {
	for line := range strings.Lines(report) {
		if rest, ok := strings.CutPrefix(line, "[-]"); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
