//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"kubeadm/test/nodes"
	"kubeadm/test/parity/phrases"
)

// holdsPhrases checks that a run's output has what tools look for in it.
func holdsPhrases(t *testing.T, output string, result nodes.Result) {
	t.Helper()
	if err := phrases.CheckAll(output, result.Stdout, result.Stderr); err != nil {
		t.Errorf("%s: %v", output, err)
	}
}

// libraryLog is a line of gRPC's log, which is shown from -v=1 on: the shared clusters come up with that.
var libraryLog = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d [0-9:]+ (WARNING|ERROR): .*\n`)

// quiet is what the run would have said without -v=1, as far as its standard error is concerned.
func quiet(result nodes.Result) nodes.Result {
	result.Stderr = libraryLog.ReplaceAllString(result.Stderr, "")
	return result
}

// TestOutputsHaveWhatToolsLookFor looks at what init and the joins of the shared clusters said, and at finished
// runs that are given again.
func TestOutputsHaveWhatToolsLookFor(t *testing.T) {
	s := home(t)
	holdsPhrases(t, "init without an endpoint", quiet(s.initial))
	holdsPhrases(t, "join", quiet(s.joined))
	again, err := s.worker.Run(t.Context(), joinCommand(ours, s)...)
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "join", again)
	again, err = s.cp.Run(t.Context(), ours, "init", "--config", "/root/kubeadm.yaml", "--upload-certs", "-v=1")
	if err != nil || !strings.Contains(again.Stdout, "\nYour Kubernetes control-plane has initialized successfully!\n") {
		t.Errorf("a finished init given again says (%v)\n%s", err, again.Stdout)
	}
	create, err := s.cp.Run(t.Context(), ours, "token", "create", "--ttl=1m", "--print-join-command")
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "token create", create)
}

// TestOutputsOfControlPlanesHaveWhatToolsLookFor does the same where control planes share an endpoint.
func TestOutputsOfControlPlanesHaveWhatToolsLookFor(t *testing.T) {
	s := high(t)
	holdsPhrases(t, "init", quiet(s.initial))
	holdsPhrases(t, "join", quiet(s.entered[s.worker.Name()]))
	holdsPhrases(t, "join of a control plane", quiet(s.entered[s.planes[1].Name()]))
	again, err := s.planes[1].Run(t.Context(), planeCommand(ours, s)...)
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "join of a control plane", again)
	upload, err := s.cp.Run(t.Context(), ours, "init", "phase", "upload-certs", "--upload-certs",
		"--certificate-key", flagOf(t, s.invitation, "--certificate-key"))
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "upload-certs", upload)
}
