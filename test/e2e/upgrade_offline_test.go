//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kubeadm/test/nodes"
)

var (
	// upstreamFile matches a file that a dry run of upstream's kubeadm would write.
	upstreamFile = regexp.MustCompile(`(?m)\[dryrun\] Would write file "(.+)" with content:$`)
	// upstreamPhase matches the lines of upstream's dry run that are not of an object.
	upstreamPhase = regexp.MustCompile(`(?m)^\[`)
)

// upstreamChanges lists the files and objects that a dry run of upstream's kubeadm shows, in the
// words of ours. Of objects that it reads it shows no namespace and name in this form.
func upstreamChanges(output string) (all []string) {
	for _, m := range upstreamFile.FindAllStringSubmatch(output, -1) {
		all = append(all, fmt.Sprintf("write file %q", m[1]))
	}
	for _, document := range strings.Split(output, "\n---\n")[1:] {
		if end := upstreamPhase.FindStringIndex(document); end != nil {
			document = document[:end[0]]
		}
		var object struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if yaml.Unmarshal([]byte(document), &object) == nil && object.Kind != "" {
			name := strings.TrimPrefix(object.Metadata.Namespace+"/"+object.Metadata.Name, "/")
			all = append(all, "apply "+object.Kind+" "+name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkOfflineDryRun runs a dry run of an upgrade on a machine of no cluster, and with upstream's
// kubeadm on another one. Ours changes nothing but its directory, and shows what upstream's shows.
func checkOfflineDryRun(t *testing.T, args ...string) (announced []string) {
	t.Helper()
	c := newCluster(t)
	n, other := addNode(t, c, "bare"), addNode(t, c, "bare-too")
	args = slices.Concat([]string{"upgrade"}, args,
		[]string{"--dry-run", "--ignore-preflight-errors=all"})

	before := listAllFiles(t, n)
	result := runUnchanged(t, n, []string{"KUBEADM_UPGRADE_DRYRUN_DIR=/tmp/dry"},
		slices.Concat([]string{kubeadm}, args)...)
	if after := listAllFiles(t, n); after != before {
		t.Errorf("files before:\n%s\nafter:\n%s", before, after)
	}
	if count := strings.Count(result.Stderr, "using a simulated cluster"); count != 1 {
		t.Errorf("%d warnings of a simulated cluster:\n%s", count, result.Stderr)
	}
	if strings.Contains(result.Stderr, "EtcdQuorum") || strings.Contains(result.Stderr, "CreateJob") {
		t.Errorf("the simulated cluster is not healthy:\n%s", result.Stderr)
	}
	announced = announcedChanges(result.Stdout)
	wanted := upstreamChanges(runCommand(t, other, slices.Concat([]string{upstreamKubeadm},
		args)...))
	if !slices.Contains(wanted, `write file "/var/lib/kubelet/config.yaml"`) {
		t.Errorf("upstream's dry run cannot be read; it shows:%s", indentLines(wanted))
	}
	for _, change := range wanted {
		if !slices.Contains(announced, change) {
			t.Errorf("upstream's dry run shows %s, ours does not:%s", change,
				indentLines(announced))
		}
	}

	// Without a directory of the user's, ours makes one. It needs no container runtime.
	runCommand(t, n, "systemctl", "stop", "containerd")
	runCommand(t, n, slices.Concat([]string{kubeadm}, args)...)
	for line := range strings.Lines(listAllFiles(t, n)) {
		if !strings.Contains(before, line) && !strings.Contains(line, " /etc/kubernetes/tmp") {
			t.Errorf("the dry run wrote outside of its directory: %s", line)
		}
	}
	for _, name := range []string{"config.yaml", "instance-config.yaml"} {
		if data, err := n.ReadFile("/tmp/dry/" + name); err != nil || len(data) == 0 {
			t.Errorf("no copy of %s: %v", name, err)
		}
	}
	// The real run is refused.
	if refused, err := n.Run(t.Context(), slices.Concat([]string{kubeadm},
		args[:len(args)-2])...); err == nil || refused.Code != 1 ||
		!strings.Contains(refused.Stderr, "not a node of a cluster") {
		t.Errorf("without --dry-run: %v", err)
	}
	return announced
}

// listAllFiles lists the files of the directories that an upgrade changes, with their contents.
func listAllFiles(t *testing.T, n *nodes.Node) string {
	t.Helper()
	return runShell(t, n, `find /etc /var/lib/kubelet /var/lib/etcd \
		\( -type f -printf '%m %s ' -exec sha256sum {} \; -o -printf '%m %y %p\n' \) 2>/dev/null | sort`)
}

func TestUpgradeApplyDryRunWithoutCluster(t *testing.T) {
	parallel(t)
	announced := checkOfflineDryRun(t, "apply", upgradeTarget)
	for _, want := range []string{
		`write file "/etc/kubernetes/manifests/kube-apiserver.yaml"`,
		`write file "/etc/kubernetes/manifests/kube-controller-manager.yaml"`,
		`write file "/etc/kubernetes/manifests/kube-scheduler.yaml"`,
		"apply ConfigMap kube-system/kubeadm-config",
		"apply ConfigMap kube-system/kubelet-config",
		"apply ClusterRole kubeadm:get-nodes",
		"apply Deployment kube-system/coredns",
		"apply DaemonSet kube-system/kube-proxy",
	} {
		if !slices.Contains(announced, want) {
			t.Errorf("%s is not announced:%s", want, indentLines(announced))
		}
	}
}

func TestUpgradeNodeDryRunWithoutCluster(t *testing.T) {
	parallel(t)
	for _, change := range checkOfflineDryRun(t, "node") {
		if strings.Contains(change, "manifests") || strings.HasPrefix(change, "apply") {
			t.Errorf("announced on a machine without manifests: %s", change)
		}
	}
}
