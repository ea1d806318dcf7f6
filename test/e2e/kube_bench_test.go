//go:build e2e

package e2e

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

const (
	kubeBenchDir  = "/root/kube-bench"
	kubeBenchName = "cis-1.10" // the newest profile of this release
)

// policyException is a check of the benchmark that a hardened cluster does not pass. What the check has read may only
// have lines that pass, and lines that match the pattern.
type policyException struct {
	lines  *regexp.Regexp
	reason string
}

// policyExceptions are by number all automated checks that a hardened cluster does not pass.
func policyExceptions() map[string]policyException {
	return map[string]policyException{
		"1.1.12": {regexp.MustCompile(`^root:root$`), "etcd runs as root, and so it owns its directory"},
		"5.1.1": {regexp.MustCompile(`^\*\*role_name: kubeadm:cluster-admins `),
			"the ClusterRoleBinding is that of admin.conf, as kubeadm creates it"},
		"5.1.3": {regexp.MustCompile(`^\*\*clusterrole_name: (cluster-admin|system:[a-z:-]+) `),
			"Kubernetes itself creates these ClusterRoles, and re-creates them"},
		"5.1.6": {regexp.MustCompile(
			`^\*\*namespace: kube-system .*service_account: (kube-proxy|<none>) |^Error .*"<none>" not found$`),
			"kube-proxy needs its token; the mirror Pods of the control plane have no service account, which the check expects"},
	}
}

// manualPolicies are checks that the benchmark leaves to people, but that kube-bench tests, and that a hardened cluster
// passes. The other manual checks are not judged.
func manualPolicies() []string {
	return []string{
		"1.1.21", // private keys are root's
		"1.2.3",  // DenyServiceExternalIPs
		"1.2.9",  // EventRateLimit
		"1.2.27", // an encryption configuration
		"1.2.28", // encryption by secretbox
		"1.2.29", // strong ciphers of the API server
		"1.3.1",  // terminated Pods are deleted
		"2.7",    // a CA for etcd
		"3.2.1",  // an audit policy
		"4.1.8",  // root owns the CA's certificate
		"4.2.4",  // no read-only port
		"4.2.5",  // streams end
		"4.2.7",  // no other host name
		"4.2.8",  // events are limited
		"4.2.11", // serving certificates are rotated
		"4.2.12", // strong ciphers of the kubelet
		"4.2.13", // processes of a Pod are limited
	}
}

// installKubeBench copies kube-bench and its profile to a node.
func installKubeBench(t *testing.T, n *nodes.Node, bench string) {
	t.Helper()
	for _, program := range []string{"kube-bench", "jq"} {
		must(t, n.Copy(filepath.Join(bench, program), kubeBenchDir+"/"+program, 0o755))
	}
	config := os.DirFS(filepath.Join(bench, "cfg"))
	files, err := fs.Glob(config, kubeBenchName+"/*.yaml")
	must(t, err)
	for _, file := range append(files, "config.yaml") {
		must(t, n.Copy(filepath.Join(bench, "cfg", file), kubeBenchDir+"/cfg/"+file, 0o644))
	}
}

// policyResult is what kube-bench says about a check.
type policyResult struct {
	Number   string `json:"test_number"`
	Text     string `json:"test_desc"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	Expected string `json:"expected_result"`
	Found    string `json:"actual_value"`
}

// checkPolicies runs the benchmark's checks of these targets on a node. All automated ones and those of manualPolicies pass,
// except policyExceptions, which fail.
func checkPolicies(t *testing.T, n *nodes.Node, targets string) {
	t.Helper()
	counts := map[string]int{}
	results := runKubeBench(t, n, targets)
	exceptions, manual := policyExceptions(), manualPolicies()
	for _, r := range results {
		counts[r.Status]++
		exception, isException := exceptions[r.Number]
		switch {
		case isException && r.Status == "FAIL":
			t.Logf("%s: %s %s: %s", n.Name(), r.Number, r.Text, exception.reason)
			for line := range strings.SplitSeq(r.Found, "\n") {
				if !strings.HasSuffix(line, "compliant: true") && !exception.lines.MatchString(line) {
					t.Errorf("%s: %s %s: no exception is for %q", n.Name(), r.Number, r.Text, line)
				}
			}
		case isException:
			t.Errorf("%s: %s %s: %s: remove the exception", n.Name(), r.Number, r.Text, r.Status)
		case r.Status == "FAIL", r.Status != "PASS" && slices.Contains(manual, r.Number):
			t.Errorf("%s: %s %s: %s: want %s; found %q %s", n.Name(), r.Number, r.Text, r.Status, r.Expected, r.Found, r.Reason)
		case r.Status == "WARN" && r.Expected != "":
			t.Logf("%s: not judged: %s %s", n.Name(), r.Number, r.Text)
		}
	}
	t.Logf("%s: kube-bench %s: %v", n.Name(), targets, counts)
	for _, number := range append(slices.Collect(maps.Keys(exceptions)), manual...) {
		isTarget := strings.HasPrefix(number, "4.") || targets != "node"
		if isTarget && !slices.ContainsFunc(results, func(r policyResult) bool { return r.Number == number }) {
			t.Errorf("%s: kube-bench has not run %s", n.Name(), number)
		}
	}
}

// runKubeBench runs the benchmark's checks of these targets on a node. Their commands need more than a POSIX shell, so bash
// is mounted over /bin/sh for them.
func runKubeBench(t *testing.T, n *nodes.Node, targets string) []policyResult {
	t.Helper()
	command := n.Command("unshare", "--mount", "sh", "-ec", "mount --bind /bin/bash /bin/sh; PATH="+kubeBenchDir+":$PATH exec "+
		kubeBenchDir+"/kube-bench run --config-dir="+kubeBenchDir+"/cfg --benchmark="+kubeBenchName+" --json --targets="+targets)
	command.Env = []string{"KUBECONFIG=/etc/kubernetes/admin.conf"}
	result, err := command.Run(t.Context())
	must(t, err)
	var report struct {
		Controls []struct {
			Tests []struct{ Results []policyResult }
		}
	}
	if err := json.Unmarshal([]byte(result.Stdout), &report); err != nil {
		t.Fatalf("%s: kube-bench: %v\n%s\n%s", n.Name(), err, result.Stdout, result.Stderr)
	}
	var all []policyResult
	for _, control := range report.Controls {
		for _, test := range control.Tests {
			all = append(all, test.Results...)
		}
	}
	return all
}
