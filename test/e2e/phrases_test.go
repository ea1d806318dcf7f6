//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"kubeadm/test/nodes"
	"kubeadm/test/parity/phrases"
)

// checkPhrases checks that a run's output has what tools look for in it.
func checkPhrases(t *testing.T, output string, result nodes.Result) {
	t.Helper()
	if err := phrases.CheckAll(output, result.Stdout, result.Stderr); err != nil {
		t.Errorf("%s: %v", output, err)
	}
}

// libraryLog is a line of gRPC's log, which is shown from -v=1 on: the shared clusters come up with that.
var libraryLog = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d [0-9:]+ (WARNING|ERROR): .*\n`)

// withoutLibraryLog is what the run would have said without -v=1, as far as its standard error is concerned.
func withoutLibraryLog(result nodes.Result) nodes.Result {
	result.Stderr = libraryLog.ReplaceAllString(result.Stderr, "")
	return result
}

// TestOutputPhrases looks at what init and the joins of the shared clusters said, and at finished
// runs that are given again.
func TestOutputPhrases(t *testing.T) {
	s := sharedCluster(t)
	checkPhrases(t, "init without an endpoint", withoutLibraryLog(s.initResult))
	checkPhrases(t, "join", withoutLibraryLog(s.joinResult))
	again, err := s.worker.Run(t.Context(), workerJoinCommand(kubeadm, s)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "join", again)
	again, err = s.cp.Run(t.Context(), kubeadm, "init", "--config", "/root/kubeadm.yaml", "--upload-certs", "-v=1")
	if err != nil || !strings.Contains(again.Stdout, "\nYour Kubernetes control-plane has initialized successfully!\n") {
		t.Errorf("a finished init given again says (%v)\n%s", err, again.Stdout)
	}
	create, err := s.cp.Run(t.Context(), kubeadm, "token", "create", "--ttl=1m", "--print-join-command")
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "token create", create)
}

// TestControlPlaneOutputPhrases does the same where control planes share an endpoint.
func TestControlPlaneOutputPhrases(t *testing.T) {
	s := sharedHACluster(t)
	checkPhrases(t, "init", withoutLibraryLog(s.initResult))
	checkPhrases(t, "join", withoutLibraryLog(s.joinResults[s.worker.Name()]))
	checkPhrases(t, "join of a control plane", withoutLibraryLog(s.joinResults[s.controlPlanes[1].Name()]))
	again, err := s.controlPlanes[1].Run(t.Context(), controlPlaneJoinCommand(kubeadm, s)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "join of a control plane", again)
	upload, err := s.cp.Run(t.Context(), kubeadm, "init", "phase", "upload-certs", "--upload-certs",
		"--certificate-key", flagValue(t, s.controlPlaneJoin, "--certificate-key"))
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "upload-certs", upload)
}
