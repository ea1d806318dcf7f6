package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/problem"
)

// ErrWithoutEtcd says why an API server leaves questions without an answer.
var ErrWithoutEtcd = errors.New("the API server is there, but it gets no answer from etcd, as is so when etcd has lost its quorum")

// silence is how long an API server may take for an answer before it is asked how it is.
const silence = 3 * time.Second

// Ask puts a question to an API server. Where that stays without an answer, report reads what the server says of its own
// health; if it says that etcd fails, the question is over with ErrWithoutEtcd.
func Ask(ctx context.Context, report func(context.Context) string, question func(context.Context) error) error {
	asked, end := context.WithCancelCause(ctx)
	defer end(nil)
	doubt := time.AfterFunc(silence, func() {
		if slices.ContainsFunc(FailedChecks(report(asked)), func(name string) bool { return strings.HasPrefix(name, "etcd") }) {
			end(ErrWithoutEtcd)
		}
	})
	defer doubt.Stop()
	err := question(asked)
	if err != nil && errors.Is(context.Cause(asked), ErrWithoutEtcd) {
		return problem.New("", ErrWithoutEtcd,
			"see on the control planes whether etcd runs: crictl ps -a --name etcd",
			"bring back the machines of the members that are away: more than half of all must run")
	}
	return err
}

// FailedChecks are the names of the checks that fail, by the report of a server's health endpoint.
func FailedChecks(report string) (names []string) {
	for line := range strings.Lines(report) {
		if rest, ok := strings.CutPrefix(line, "[-]"); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
