//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/test/nodes"
)

// TestUpgradeMatchesUpstream upgrades two equal clusters, one of them with upstream's kubeadm, and
// compares what that leaves on the disks and in the clusters.
func TestUpgradeMatchesUpstream(t *testing.T) {
	parallel(t)
	inFullRun(t, "four minutes")
	ours, theirs := newUpstreamOlderCluster(t), newUpstreamOlderCluster(t)
	for program, s := range map[string]*testCluster{kubeadm: ours, upstreamKubeadm: theirs} {
		apply, worker := upgradeCommand(upgradeTarget), upgradeNodeCommand()
		apply[0], worker[0] = program, program
		runCommand(t, s.cp, apply...)
		runCommand(t, s.worker, worker...)
	}
	for _, pair := range [][2]*nodes.Node{{ours.cp, theirs.cp}, {ours.worker, theirs.worker}} {
		compareFiles(t, pair[0], pair[1])
	}
	// Controllers change objects for some time.
	await(t, "the same objects in both clusters", waitLimit, func() error {
		want := describeObjects(t, theirs.cp)
		if len(want) < 50 {
			return fmt.Errorf("there are only these objects: %s", slices.Sorted(maps.Keys(want)))
		}
		if diff := cmp.Diff(want, describeObjects(t, ours.cp)); diff != "" {
			return fmt.Errorf("(-upstream +ours):\n%s", diff)
		}
		return nil
	})
}

// compareFiles compares names and modes of the files of two nodes, and the contents of those that
// hold neither keys nor certificates.
func compareFiles(t *testing.T, ours, theirs *nodes.Node) {
	t.Helper()
	files := listFiles(t, ours)
	if got, want := files.list(), listFiles(t, theirs).list(); !slices.Equal(got, want) {
		t.Errorf("%s: the files are%s\nbut upstream leaves%s", ours.Name(), indentLines(got),
			indentLines(want))
	}
	for name := range files {
		isPlain := strings.Contains(name, "/manifests/") || strings.HasPrefix(name, "/var/lib/kubelet/")
		if isPlain && !isSameFile(t, ours, theirs, name) {
			t.Errorf("%s: %s is\n%s\nbut upstream writes\n%s", ours.Name(), name,
				readFile(t, ours, name), readFile(t, theirs, name))
		}
	}
}

// describeObjects returns what kubeadm may have written of each object, by kind and name. Objects
// with certificates and keys of the cluster are named only.
func describeObjects(t *testing.T, cp *nodes.Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, namespace := range []string{"kube-system", "kube-public"} {
		var list unstructured.UnstructuredList
		text := kubectl(t, cp, "get", "--namespace="+namespace, "--output=json",
			"configmaps,secrets,serviceaccounts,services,roles,rolebindings,deployments,daemonsets,clusterroles,clusterrolebindings")
		must(t, json.Unmarshal([]byte(text), &list))
		for _, u := range list.Items {
			name := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
			if strings.HasPrefix(name, "Secret kube-system/bootstrap-token-") {
				continue
			}
			all[name] = ""
			if u.GetKind() == "Secret" || holdsCertificates(u.GetName()) {
				continue
			}
			unstructured.RemoveNestedField(u.Object, "status")
			u.Object["metadata"] = map[string]any{"labels": u.GetLabels(),
				"annotations": withoutRevisions(u.GetAnnotations())}
			described, err := yaml.Marshal(u.Object)
			must(t, err)
			all[name] = string(described)
		}
	}
	return all
}

func holdsCertificates(name string) bool {
	return slices.Contains([]string{"cluster-info", "kube-root-ca.crt",
		"extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"},
		name)
}

// withoutRevisions removes annotations that count changes.
func withoutRevisions(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	for _, name := range []string{"deployment.kubernetes.io/revision",
		"deprecated.daemonset.template.generation"} {
		delete(kept, name)
	}
	return kept
}
