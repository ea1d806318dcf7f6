//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestUnusableTokens checks that join names what is wrong with a token, and changes nothing.
func TestUnusableTokens(t *testing.T) {
	d := newAttackedJoin(t, "token")
	create := func(flags ...string) string {
		return runCommand(t, d.cluster.cp,
			append([]string{kubeadm, "token", "create"}, flags...)...)
	}
	// A controller signs cluster-info for a token, and the API server reads its usages from a
	// cache.
	deleted := create()
	awaitTokenSigned(t, d.cluster, deleted)
	runCommand(t, d.cluster.cp, kubeadm, "token", "delete", deleted)
	awaitTokenRemoved(t, d.cluster, deleted)
	speechless := create("--usages=authentication")
	powerless := create()
	awaitTokenSigned(t, d.cluster, powerless)
	kubectl(t, d.cluster.cp, "patch", "secret", "--namespace=kube-system",
		"bootstrap-token-"+powerless[:6], "--patch",
		`{"stringData":{"usage-bootstrap-authentication":"false"}}`)
	awaitTokenRejected(t, d.cluster, powerless)
	const mint = "kubeadm token create --print-join-command"
	t.Run("without authentication", func(t *testing.T) {
		d.checkRefused(t, []string{"does not accept the bootstrap token",
			`lacks the "authentication" usage`, mint},
			d.joinCommand(d.cluster.workerJoin[2], powerless)...)
	})
	// join waits for the signature of a token; here two machines wait at the same time.
	for _, a := range []struct {
		name, token string
		victim      *nodes.Node
		want        []string
	}{
		{"deleted", deleted, d.victim, []string{"does not recognize token " + deleted[:6]}},
		{"without signing", speechless, d.attackerNode,
			[]string{"does not recognize token " + speechless[:6], `lacks the "signing" usage`}},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			own := *d
			own.victim = a.victim
			own.checkRefused(t, append(a.want, mint),
				d.joinCommand(d.cluster.workerJoin[2], a.token)...)
		})
	}
}

// TestExpiredTokenErrorNamesCommand runs the command that the error for an expired token names on
// the control plane, and then the join command that it prints.
func TestExpiredTokenErrorNamesCommand(t *testing.T) {
	d := newAttackedJoin(t, "advice")
	expired := runCommand(t, d.cluster.cp, kubeadm, "token", "create", "--ttl=1s")
	awaitTokenRemoved(t, d.cluster, expired)
	const mint = "kubeadm token create --print-join-command"
	command := d.joinCommand(d.cluster.workerJoin[2], expired)
	result := checkFails(t, d.victim,
		[]string{"does not recognize token " + expired[:6], "expired", mint}, command...)
	advice := ""
	for line := range strings.Lines(result.Stderr) {
		if _, after, ok := strings.Cut(line, "on a control plane node: "); ok &&
			strings.HasPrefix(after, mint) {
			advice = strings.TrimSpace(after)
		}
	}
	if advice == "" {
		t.Fatalf("no line of the error ends in the command:\n%s", result.Stderr)
	}
	fresh := strings.Fields(runCommand(t, d.cluster.cp, strings.Fields(advice)...))
	runCommand(t, d.victim, append(fresh, "--ignore-preflight-errors", nodes.IgnoredPreflight)...)
	awaitJoined(t, d.cluster, d.victim)
}

// awaitTokenRemoved waits until the token's Secret and its signature of cluster-info are gone.
func awaitTokenRemoved(t *testing.T, s *testCluster, token string) {
	t.Helper()
	await(t, "removal of token "+token[:6], waitLimit, func() error {
		// The signature may not be there yet; the Secret is from the start.
		if _, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "get", "secret",
			"bootstrap-token-"+token[:6]); err == nil {
			return errors.New("its Secret exists")
		}
		if _, ok := awaitClusterInfo(t, s).Data["jws-kubeconfig-"+token[:6]]; ok {
			return errors.New("cluster-info is still signed for it")
		}
		return nil
	})
}

// awaitTokenRejected waits until the API server no longer authenticates a token.
func awaitTokenRejected(t *testing.T, s *testCluster, token string) {
	t.Helper()
	await(t, "token "+token[:6]+" to be rejected", waitLimit, func() error {
		_, err := s.cp.Run(t.Context(), "kubectl", "--kubeconfig=/dev/null",
			"--server=https://"+s.workerJoin[2],
			"--certificate-authority=/etc/kubernetes/pki/ca.crt", "--token="+token, "auth",
			"whoami")
		if err == nil {
			return errors.New("it still authenticates")
		}
		if strings.Contains(err.Error(), "Unauthorized") {
			return nil
		}
		return err
	})
}
