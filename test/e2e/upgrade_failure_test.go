//go:build e2e

package e2e

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// newOlderControlPlane is a cluster of one node, of the older release.
func newOlderControlPlane(t *testing.T) *nodes.Node {
	t.Helper()
	n := addNode(t, newOlderCluster(t), "cp1")
	useOlder(t, n)
	config := nodes.InitConfig(nodes.Config{Address: n.Address(), Version: olderVersion(t)})
	if _, err := n.Init(t.Context(), config, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := awaitClusterReady(t.Context(), n, 1); err != nil {
		t.Fatal(err)
	}
	return n
}

// upgradeTarget is the release of the bundle.
const upgradeTarget = "v1.37.1"

// upgradeCommand upgrades to a version without confirmation.
func upgradeCommand(version string, more ...string) []string {
	return append([]string{kubeadm, "upgrade", "apply", version, "--yes",
		"--ignore-preflight-errors=" + nodes.IgnoredPreflight, "-v=1"}, more...)
}

// ignoreNotReady upgrades a cluster without a Pod network, whose nodes are not Ready.
const ignoreNotReady = "--ignore-preflight-errors=ControlPlaneNodesReady"

// checkRunningVersion checks the manifests of the control plane's components, and what the API server says
// of itself.
func checkRunningVersion(t *testing.T, n *nodes.Node, want string) {
	t.Helper()
	for _, component := range []string{"kube-apiserver", "kube-controller-manager",
		"kube-scheduler"} {
		manifest := readFile(t, n, "/etc/kubernetes/manifests/"+component+".yaml")
		if !strings.Contains(manifest, component+":"+want) {
			t.Errorf("the manifest of %s is not of %s:\n%s", component, want, manifest)
		}
	}
	if got := kubectl(t, n, "get", "--raw", "/version"); !strings.Contains(got, `"`+want+`"`) {
		t.Errorf("the API server is not %s but %s", want, got)
	}
}

// TestFailedUpgradeIsUndone breaks components of the new version by a patch, in a full run each. Each time the error
// names the component and the argument, and the old version runs again with all its objects.
func TestFailedUpgradeIsUndone(t *testing.T) {
	inFullRun(t, "five minutes")
	parallel(t)
	n := newOlderControlPlane(t)
	older := olderVersion(t)
	createWitness(t, n)
	components := []string{"etcd", "kube-scheduler", "kube-controller-manager", "kube-apiserver"}
	for _, k := range pickSample(t, len(components), 1) {
		component := components[k]
		t.Run(component, func(t *testing.T) {
			runCommand(t, n, "rm", "-rf", "/root/patches")
			runCommand(t, n, "mkdir", "/root/patches")
			writeFile(t, n, "/root/patches/"+component+"0+json.yaml",
				"- {op: add, path: /spec/containers/0/command/-, value: --no-such-flag=1}\n")
			started := time.Now()
			checkFails(t, n, []string{"replacing the static Pod of " + component, "no-such-flag",
				"the previous static Pods were restored"},
				upgradeCommand(upgradeTarget, "--patches=/root/patches")...)
			t.Logf("%s: failed and undone in %s", component, time.Since(started).Round(time.Second))
			checkRunningVersion(t, n, older)
			awaitWitness(t, n)
		})
	}
	// An image that does not exist is found before anything stops.
	writeFile(t, n, "/root/patches/kube-apiserver0+json.yaml",
		"- {op: replace, path: /spec/containers/0/image, value: registry.invalid/api:v1}\n")
	before := listFiles(t, n)
	checkFails(t, n, []string{"registry.invalid/api:v1"},
		upgradeCommand(upgradeTarget, "--patches=/root/patches")...)
	if changed := changedFiles(before, listFiles(t, n)); slices.ContainsFunc(changed,
		func(file string) bool { return strings.Contains(file, "/manifests/") }) {
		t.Errorf("changed were %s", changed)
	}
	checkAddonsUndone(t, n)
	runCommand(t, n, upgradeCommand(upgradeTarget)...)
	checkRunningVersion(t, n, upgradeTarget)
	checkControlPlaneNode(t, n)
}

// checkAddonsUndone lets the cluster refuse the new kube-proxy: CoreDNS must stay as it was too.
func checkAddonsUndone(t *testing.T, n *nodes.Node) {
	t.Helper()
	writeFile(t, n, "/root/policy.yaml", `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: e2e-no-new-proxy}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [daemonsets]}
  validations:
  - expression: "!object.spec.template.spec.containers.exists(c, c.image.endsWith('`+upgradeTarget+`'))"
    message: this kube-proxy is refused
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: e2e-no-new-proxy}
spec: {policyName: e2e-no-new-proxy, validationActions: [Deny]}
`)
	kubectl(t, n, "apply", "--filename=/root/policy.yaml")
	await(t, "the policy to be in force", waitLimit, func() error {
		if _, err := n.Kubectl(t.Context(), "--namespace=kube-system", "set", "image", "daemonset/kube-proxy",
			"kube-proxy=kube-proxy:"+upgradeTarget, "--dry-run=server"); err == nil {
			return errors.New("a new image is accepted")
		}
		return nil
	})
	// the upgrade would restore the limit of the manifest
	kubectl(t, n, "--namespace=kube-system", "set", "resources", "deployment/coredns", "--limits=memory=180Mi")
	addons := func() string {
		return kubectl(t, n, "--namespace=kube-system", "get", "daemonset/kube-proxy", "deployment/coredns",
			"configmap/kube-proxy", "configmap/coredns", "--output",
			"jsonpath={range .items[*]}{.kind}: {.spec.template}{.data}{\"\\n\"}{end}")
	}
	before := addons()
	result := checkFails(t, n, []string{"phase addon/kube-proxy", "this kube-proxy is refused"},
		upgradeCommand(upgradeTarget)...)
	if !strings.Contains(result.Stdout, "undone: apply Deployment kube-system/coredns") {
		t.Errorf("it does not say that CoreDNS is restored:\n%s", result.Stdout)
	}
	if after := addons(); after != before {
		t.Errorf("the add-ons were\n%s\nand are\n%s", before, after)
	}
	checkRunningVersion(t, n, upgradeTarget)
	kubectl(t, n, "delete", "--filename=/root/policy.yaml")
}
