//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kubeadm/internal/report"
	"kubeadm/test/nodes"
)

// TestRunOutput drives a cluster through the output for programs: the worker joins with the command
// of init's result, a join fails, and both are reset. Every run has a log file without secrets.
func TestRunOutput(t *testing.T) {
	parallel(t)
	c := newCluster(t)
	both, err := c.AddAll(t.Context(), "cp1", "worker1")
	if err != nil {
		t.Fatal(err)
	}
	cp, worker := both[0], both[1]
	initResult, err := cp.Init(t.Context(), nodes.InitConfig(nodes.Config{Address: cp.Address()}),
		io.Discard, "--upload-certs", "--events=json", "--trace=/root/init.json")
	if err != nil {
		t.Fatal(err)
	}
	created := checkStream(t, initResult.Stdout)
	if created.Outcome != report.Succeeded || created.NodeName != "cp1" ||
		len(created.JoinCommands) != 1 || len(created.Phases) < 20 || len(created.Files) < 30 ||
		len(created.Objects) < 20 {
		t.Fatalf("the result of init is %+v", created)
	}
	trace, err := cp.ReadFile("root/init.json")
	if err != nil || !json.Valid(trace) || !strings.Contains(string(trace), `"cat":"wait"`) {
		t.Errorf("the trace of init: %v\n%.300s", err, trace)
	}
	join := created.JoinCommands[0]
	command := strings.Fields(join.Worker)

	wrong := slices.Clone(command)
	for i, word := range wrong {
		if strings.HasPrefix(word, "sha256:") {
			wrong[i] = "sha256:" + strings.Repeat("0", 64)
		}
	}
	failed, err := worker.Join(t.Context(), append(wrong, "--events=json"), io.Discard)
	if err == nil {
		t.Fatal("a CA that is not pinned was accepted")
	}
	refused := checkStream(t, failed.Stdout)
	if refused.Outcome != report.Failed || refused.ExitCode != 1 || len(refused.Error.Hints) == 0 ||
		!strings.Contains(failed.Stderr, "the log of this run is "+refused.LogFile) {
		t.Errorf("the result of a failed join is %+v: %+v\n%s", refused, refused.Error,
			failed.Stderr)
	}

	joinResult, err := worker.Join(t.Context(), append(command, "--events=json"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	joined := checkStream(t, joinResult.Stdout)
	if joined.Outcome != report.Succeeded || joined.KubernetesVersion != created.KubernetesVersion {
		t.Errorf("the result of join is %+v", joined)
	}
	reset := checkStream(t, runCommand(t, worker, kubeadm, "reset", "--force", "--events=json"))
	if reset.Outcome != report.Succeeded {
		t.Errorf("the result of reset is %+v", reset)
	}

	for n, results := range map[*nodes.Node][]report.Result{cp: {created},
		worker: {refused, joined, reset}} {
		_, secret, _ := strings.Cut(join.Token, ".")
		for _, r := range results {
			if mode := runCommand(t, n, "stat", "--format=%a", r.LogFile); mode != "600" {
				t.Errorf("%s has mode %s", r.LogFile, mode)
			}
			text := runCommand(t, n, "cat", r.LogFile)
			if !strings.Contains(text, "Z [") || strings.Contains(text, secret) ||
				strings.Contains(text, join.CertificateKey) {
				t.Errorf("the log of %s has no lines of phases, or a secret:\n%s", r.Command, text)
			}
		}
		if mode := runCommand(t, n, "stat", "--format=%a", "/var/log/kubeadm"); mode != "700" {
			t.Errorf("the directory of the logs has mode %s", mode)
		}
	}
}

// checkStream compares a stream of events with the schema, and returns its result.
func checkStream(t *testing.T, stream string) (r report.Result) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/reference/run.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for line := range strings.Lines(strings.TrimSpace(stream)) {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err == nil {
			err = schema.Validate(document)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		last = line
	}
	if err := json.Unmarshal([]byte(last), &r); err != nil || r.Kind != "RunResult" {
		t.Fatalf("the stream has no result: %v\n%s", err, stream)
	}
	return r
}
