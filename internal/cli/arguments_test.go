package cli

import (
	"io/fs"
	"strings"
	"testing"

	"kubeadm/internal/problem"
)

// What is no slip of the hand must reach the command as it is.
func TestValidArgumentsAreAccepted(t *testing.T) {
	root := New(Host{})
	for _, args := range [][]string{
		nil,
		{"init", "--config", "kubeadm.yaml", "-v=5", "-v", "5"},
		{"init", "--node-name", "xn--bcher-kva.example", "--config", "/root/mein--config.yaml"},
		{"join", "192.0.2.1:6443", "--token", "abcdef.0123456789abcdef"},
		{"token", "create", "--description", "for Anna \u2013 \u201cthe\u00a0second\u201d"},
		{"token", "create", "--description=\u2013 a list\u00a0"},
		{"token", "list", "-o", "jsonpath={range}\n\t{@}"},
		{"token", "list", "-ojson"},
		{"init", "--cert-dir", "/srv/schl\u00fcssel/\u9375 1"},
		{"reset", "-f"},
		{"version", "-h"},
		{"completion", "bash", "--", "\u2013x"},
	} {
		if err := checkArguments(root, args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestAttachedFlagsAreFound(t *testing.T) {
	root := New(Host{})
	if err := checkArguments(root, []string{"init", "a--token"}); err == nil {
		t.Error("a--token is taken")
	}
	if err := checkArguments(root, []string{"version", "a--token"}); err != nil {
		t.Error(err)
	}
}

func TestPermissionDeniedHasRootHint(t *testing.T) {
	for user, want := range map[int]bool{1000: true, 0: false} {
		h := newTestMachine(t)
		h.world.Info.UserID = user
		err := addRootHint(t.Context(), h.Host,
			&fs.PathError{Op: "open", Path: "/etc/kubernetes/admin.conf", Err: fs.ErrPermission})
		if got := strings.Contains(strings.Join(problem.Hints(err), "\n"), "as root"); got != want {
			t.Errorf("user %d: %t", user, got)
		}
	}
	if addRootHint(t.Context(), Host{}, nil) != nil {
		t.Error("success became an error")
	}
}
