//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

var (
	announcedLine = regexp.MustCompile(`^\[[a-z-]+\] would (.+)`)
	waitLine      = regexp.MustCompile(`^\[[a-z-]+\] waiting for (.+)`)
	tokenName     = regexp.MustCompile(`bootstrap-token-[a-z0-9]{6}|token [a-z0-9]{6}\b`)
	endpoint      = regexp.MustCompile(`[0-9.]+:6443`)

	// optionalWait matches waits that a run announces only if the first attempt fails.
	optionalWait = regexp.MustCompile(
		`^wait for (the cluster to answer|etcd to list its members|kube-apiserver at https://endpoint|` +
			`the container runtime at .*)$`)
)

// normalizeChange removes from a line what differs from run to run: token IDs and addresses.
func normalizeChange(text string) string {
	return strings.TrimSpace(
		endpoint.ReplaceAllString(tokenName.ReplaceAllString(text, "bootstrap-token"), "endpoint"))
}

// sortChanges sorts changes and waits, removes repetitions of those whose number depends on timing,
// and leaves out optional waits. Systemd restarts a kubelet without configuration every ten seconds:
// if it does so right after the configuration is written, kubeadm has no need to start it.
func sortChanges(all []string) []string {
	slices.Sort(all)
	all = slices.CompactFunc(all, func(a, b string) bool {
		return a == b && (strings.HasPrefix(a, "wait for ") || a == `start service "kubelet"`)
	})
	return slices.DeleteFunc(all, optionalWait.MatchString)
}

// announcedChanges lists the changes and waits that a dry run announces, sorted.
func announcedChanges(output string) []string {
	var all []string
	for line := range strings.Lines(output) {
		m := announcedLine.FindStringSubmatch(line)
		// Printing is not a change.
		if m != nil && !strings.HasPrefix(m[1], "show") {
			all = append(all, normalizeChange(m[1]))
		}
	}
	return sortChanges(all)
}

// doneChanges lists the changes and waits of a real run with -v=1, sorted.
func doneChanges(output string) []string {
	var all []string
	for line := range strings.Lines(output) {
		change, ok := doneChange(line)
		if ok {
			all = append(all, normalizeChange(change))
		} else if m := waitLine.FindStringSubmatch(line); m != nil &&
			!strings.HasPrefix(m[1], "the kubelet to run") {
			all = append(all, normalizeChange("wait for "+m[1]))
		}
	}
	return sortChanges(all)
}

// checkDryRunMatches compares what a dry run announced with what a real run of the same command
// did. Both are the output of the run.
func checkDryRunMatches(t *testing.T, dry, real string) {
	t.Helper()
	announced, done := announcedChanges(dry), doneChanges(real)
	if len(done) < 5 {
		t.Fatalf("a real run did nothing:\n%s", real)
	}
	if slices.Equal(announced, done) {
		return
	}
	for _, change := range done {
		if !slices.Contains(announced, change) {
			t.Errorf("done, but not announced: %s", change)
		}
	}
	for _, change := range announced {
		if !slices.Contains(done, change) {
			t.Errorf("announced, but not done: %s", change)
		}
	}
	if !t.Failed() {
		t.Errorf("the numbers of changes differ; announced:%s\ndone:%s", indentLines(announced),
			indentLines(done))
	}
}

func takeFingerprint(t *testing.T, n *nodes.Node) nodes.Fingerprint {
	t.Helper()
	f, err := n.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// runUnchanged runs a command and checks that it changed nothing on the node.
func runUnchanged(t *testing.T, n *nodes.Node, env []string, args ...string) nodes.Result {
	t.Helper()
	before := takeFingerprint(t, n)
	cmd := n.Command(args...)
	cmd.Env = env
	result, err := cmd.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkUnchanged(t, n, before)
	return result
}

// checkUnchanged checks that a node still has the fingerprint that it had before.
func checkUnchanged(t *testing.T, n *nodes.Node, before nodes.Fingerprint) {
	t.Helper()
	if diff := before.Diff(takeFingerprint(t, n)); len(diff) > 0 {
		t.Errorf("%s was changed:%s", n.Name(), indentLines(diff))
	}
}

var secretLine = regexp.MustCompile(
	`.*(PRIVATE KEY|client-key-data: \S{9}|token-secret: [A-Za-z0-9+/=]{16}).*`)

// checkNoSecrets checks that the files and objects that a dry run prints hold no secret.
func checkNoSecrets(t *testing.T, output string) {
	t.Helper()
	for _, line := range secretLine.FindAllString(output, -1) {
		t.Errorf("the dry run shows a secret: %s", line)
	}
}

func TestInitDryRunMatchesInit(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, newCluster(t), "cp1")
	command := append(initCommand(t, n), "--dry-run")
	result := runUnchanged(t, n, []string{"KUBEADM_INIT_DRYRUN_DIR=/tmp/dry"}, command...)
	checkDryRunMatches(t, result.Stdout, s.initResult.Stdout)
	checkNoSecrets(t, result.Stdout)
	for _, name := range []string{"etcd.yaml", "kube-apiserver.yaml",
		"kube-controller-manager.yaml", "kube-scheduler.yaml"} {
		shown, err := n.ReadFile("/tmp/dry/" + name)
		if err != nil {
			t.Error(err)
			continue
		}
		if written, err := s.cp.ReadFile("/etc/kubernetes/manifests/" + name); err != nil ||
			string(written) != string(shown) {
			t.Errorf("%s of the dry run differs from what init writes: %v", name, err)
		}
	}
}

func TestInitDryRunWritesOnlyItsDirectory(t *testing.T) {
	parallel(t)
	n := addNode(t, newCluster(t), "cp1")
	before := takeFingerprint(t, n)
	runCommand(t, n, append(initCommand(t, n), "--dry-run")...)
	for _, line := range before.Diff(takeFingerprint(t, n)) {
		if !strings.HasPrefix(line, "+ files: /etc/kubernetes/tmp") &&
			!strings.HasPrefix(line, "+ files: /root/kubeadm.yaml") {
			t.Errorf("the dry run wrote outside of its directory: %s", line)
		}
	}
	if mode := runCommand(t, n, "stat", "-c", "%a", "/etc/kubernetes/tmp"); mode != "700" {
		t.Errorf("other users can read the directory: mode %s", mode)
	}
}

func TestWorkerJoinDryRunWithoutCluster(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, newCluster(t), "worker1")
	result := runUnchanged(t, n, []string{"KUBEADM_JOIN_DRYRUN_DIR=/tmp/dry"}, kubeadm, "join",
		"--dry-run", "10.77.0.99:6443",
		"--token=abcdef.0123456789abcdef", "--discovery-token-unsafe-skip-ca-verification",
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	checkDryRunMatches(t, result.Stdout, s.joinResult.Stdout)
	// The discovery timeout of a real join is five minutes.
	if result.Duration > 4*time.Minute {
		t.Errorf("discovery of an unreachable cluster took %s", result.Duration)
	}
}

func TestWorkerJoinDryRunMatchesJoin(t *testing.T) {
	s := sharedCluster(t)
	n := addNode(t, s.Cluster, "dry")
	t.Cleanup(func() { removeNode(t, s, n) })
	result := runUnchanged(t, n, []string{"KUBEADM_JOIN_DRYRUN_DIR=/tmp/dry"},
		append(workerJoinCommand(kubeadm, s), "--dry-run")...)
	checkDryRunMatches(t, result.Stdout, s.joinResult.Stdout)
	checkNoSecrets(t, result.Stdout)
	if list := kubectl(t, s.cp, "get", "nodes", "--output=name"); strings.Contains(list, "dry") {
		t.Errorf("the dry run joined the cluster:\n%s", list)
	}
	for _, r := range readObject[certv1.CertificateSigningRequestList](t, s.cp,
		"certificatesigningrequests").Items {
		if asked, err := pki.ParseRequest(r.Spec.Request); err != nil ||
			asked.Subject.CommonName == "system:node:"+n.Name() {
			t.Errorf("the dry run asked for a certificate by %s: %v", r.Name, err)
		}
	}
}

// TestResetDryRunLeavesClusterRunning checks the files and the kubelet; a fingerprint of a running
// node changes by itself.
func TestResetDryRunLeavesClusterRunning(t *testing.T) {
	s := sharedCluster(t)
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		files := listFiles(t, n)
		output := runCommand(t, n, kubeadm, "reset", "--force", "--dry-run")
		if now := listFiles(t, n); fmt.Sprint(now) != fmt.Sprint(files) {
			t.Errorf("the dry run changed files on %s:%s\nbefore:%s", n.Name(),
				indentLines(now.list()), indentLines(files.list()))
		}
		for _, want := range []string{`stop service "kubelet"`, "remove all Kubernetes containers",
			`remove the contents of "/etc/kubernetes/pki"`} {
			if !slices.Contains(announcedChanges(output), want) {
				t.Errorf("%s is not announced on %s:\n%s", want, n.Name(), output)
			}
		}
		if state := runCommand(t, n, "systemctl", "is-active", "kubelet"); state != "active" {
			t.Errorf("the kubelet of %s is %s", n.Name(), state)
		}
	}
	if err := s.cp.AwaitReady(t.Context(), 2); err != nil {
		t.Error(err)
	}
}
