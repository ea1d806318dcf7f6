//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"kubeadm/test/nodes"
	"kubeadm/test/parity/phrases"
)

// checkPhrases checks that a run's output holds the phrases that tools parse.
func checkPhrases(t *testing.T, output string, result nodes.Result) {
	t.Helper()
	if err := phrases.CheckAll(output, result.Stdout, result.Stderr); err != nil {
		t.Errorf("%s: %v", output, err)
	}
}

// libraryLog matches a line of gRPC's log, which -v=1 shows: the shared clusters are created with
// that; or a line of the log of etcd's client, with which upstream's kubeadm reports each retry.
var libraryLog = regexp.MustCompile(
	`(?m)^(\d{4}/\d\d/\d\d [0-9:]+ (WARNING|ERROR): |\{"level":"warn",).*\n`)

// withoutLibraryLog removes these lines from standard error.
func withoutLibraryLog(result nodes.Result) nodes.Result {
	result.Stderr = libraryLog.ReplaceAllString(result.Stderr, "")
	return result
}

// TestOutputPhrases checks the output of init and join on the shared cluster, and that of running
// them again.
func TestOutputPhrases(t *testing.T) {
	s := sharedCluster(t)
	checkPhrases(t, "init without an endpoint", withoutLibraryLog(s.initResult))
	checkPhrases(t, "join", withoutLibraryLog(s.joinResult))
	again, err := s.worker.Run(t.Context(), workerJoinCommand(kubeadm, s)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "join", again)
	again, err = s.cp.Run(t.Context(), kubeadm, "init", "--config", "/root/kubeadm.yaml",
		"--upload-certs", "-v=1")
	if err != nil || !strings.Contains(again.Stdout,
		"\nYour Kubernetes control-plane has initialized successfully!\n") {
		t.Errorf("init, run again after it finished, prints (%v)\n%s", err, again.Stdout)
	}
	checkPhrases(t, "token create", createToken(t, s.cp, kubeadm, "--print-join-command"))
}
