//go:build e2e

package e2e

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/test/nodes"
)

const patchDir = "/etc/patches"

// podPatchTargets are the patch targets that contain a Pod: its place, as a path and as the
// document around it, and its container.
var podPatchTargets = []struct{ target, path, around, container string }{
	{"etcd", "", "%s", "etcd"},
	{"kube-apiserver", "", "%s", "kube-apiserver"},
	{"kube-controller-manager", "", "%s", "kube-controller-manager"},
	{"kube-scheduler", "", "%s", "kube-scheduler"},
	{"corednsdeployment", "/spec/template", `{"spec": {"template": %s}}`, "coredns"},
	{"kubeproxydaemonset", "/spec/template", `{"spec": {"template": %s}}`, "kube-proxy"},
}

// writePatches writes patches of every target and type to a node. Each sets the annotation "last"
// and one of its own. Strategic merge patches select the container by name, where JSON merge
// patches would replace the list.
func writePatches(t *testing.T, n *nodes.Node, maxPods int) {
	t.Helper()
	files := map[string]string{
		"kubeletconfiguration0.yaml":      "maxPods: 1\nregistryPullQPS: 11\n",
		"kubeletconfiguration1+json.yaml": "- {op: replace, path: /maxPods, value: 2}\n- {op: add, path: /registryBurst, value: 12}\n",
		"kubeletconfiguration2+merge.json": fmt.Sprintf(`{"maxPods": %d, "eventBurst": 13}`,
			maxPods),
		"kube-apiserver9+json.yaml.bak":       "what an editor left",
		"more/kube-scheduler3+strategic.yaml": "# of a directory below\nmetadata: {labels: {more: x}}\n---\nmetadata: {labels: {still-more: x}}\n",
	}
	for _, p := range podPatchTargets {
		const annotations = `"metadata": {"annotations": {"last": "%[1]s", "%[1]s": "` + "%[2]s" +
			`"}}`
		files[p.target+"0.yaml"] = fmt.Sprintf(p.around,
			fmt.Sprintf("{"+annotations+
				`, "spec": {"containers": [{"name": "%[3]s", "resources": {"requests": {"cpu": "17m"}}}]}}`, "strategic", n.Name(), p.container))
		files[p.target+"1+json.json"] = fmt.Sprintf(
			`[{"op": "replace", "path": "%[1]s/metadata/annotations/last", "value": "json"},
			{"op": "add", "path": "%[1]s/metadata/annotations/json", "value": "%[2]s"}]`, p.path, n.Name())
		files[p.target+"2+merge.yaml"] = fmt.Sprintf(p.around,
			fmt.Sprintf("{"+annotations+"}", "merge", n.Name()))
	}
	for name, text := range files {
		writeFile(t, n, path.Join(patchDir, name), text)
	}
}

// TestPatchesOfEveryTargetAndType applies all patches on each node of a cluster: by configuration
// file on the first control plane and the worker, by flag on the second control plane.
func TestPatchesOfEveryTargetAndType(t *testing.T) {
	inFullRun(t, "two minutes")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createNodes(t.Context(), 2, 1); err != nil {
		t.Fatal(err)
	}
	limits := make(map[string]string)
	for i, n := range s.Nodes() {
		writePatches(t, n, 71+i)
		limits[n.Name()] = fmt.Sprint(71 + i)
	}
	if err := s.initFirst(t.Context(),
		nodes.Config{Init: "patches:\n  directory: " + patchDir}); err != nil {
		t.Fatal(err)
	}
	if notice := s.initResult.Stdout + s.initResult.Stderr; !strings.Contains(notice,
		patchDir+"/kube-apiserver9+json.yaml.bak") {
		t.Errorf("init does not name the file that it skipped:\n%s", notice)
	}
	runCommand(t, s.controlPlanes[1], controlPlaneJoinCommand(kubeadm, s, "--patches", patchDir)...)
	writeFile(t, s.worker, joinConfigFile,
		joinConfigFor(t, s.workerJoin, "")+"patches:\n  directory: "+patchDir+"\n")
	runCommand(t, s.worker, kubeadm, "join", "--config", joinConfigFile)
	for _, n := range s.controlPlanes {
		t.Run(n.Name(), func(t *testing.T) { testPatchedPods(t, s, n) })
	}
	t.Run("kubelets", func(t *testing.T) { testPatchedKubelets(t, s, limits) })
	t.Run("addons", func(t *testing.T) { testPatchedAddons(t, s, s.cp) })
	checkUpgradeToSameVersion(t, s.cp, "--patches", patchDir, ignoreNotReady)
	runCommand(t, s.controlPlanes[1], kubeadm, "upgrade", "node", "--patches", patchDir,
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	t.Run("addons after an upgrade",
		func(t *testing.T) { testPatchedAddons(t, s, s.controlPlanes[1]) })
}

// testPatchedPods waits for the mirror Pods of the control plane, and checks them.
func testPatchedPods(t *testing.T, s *haCluster, n *nodes.Node) {
	for _, p := range podPatchTargets {
		if p.path != "" {
			continue
		}
		await(t, "the mirror Pod of "+p.target, waitLimit, func() error {
			_, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "get", "pod",
				p.target+"-"+n.Name())
			return err
		})
		pod := readObject[corev1.Pod](t, s.cp, "--namespace=kube-system", "pod",
			p.target+"-"+n.Name())
		checkPatched(t, n, p.target, pod.ObjectMeta, pod.Spec)
		if _, ok := pod.Labels["still-more"]; ok != (p.target == "kube-scheduler") {
			t.Errorf("%s has the labels %v", p.target, pod.Labels)
		}
	}
}

// checkPatched checks that all three patches of a node were applied to a Pod, in order.
func checkPatched(t *testing.T, n *nodes.Node, target string, meta metav1.ObjectMeta,
	spec corev1.PodSpec) {
	t.Helper()
	for key, want := range map[string]string{"last": "merge", "strategic": n.Name(),
		"json": n.Name(), "merge": n.Name()} {
		if got := meta.Annotations[key]; got != want {
			t.Errorf("%s has the annotation %s=%q, want %q", target, key, got, want)
		}
	}
	requests := spec.Containers[0].Resources.Requests
	if cpu := requests.Cpu().String(); len(spec.Containers) != 1 || cpu != "17m" ||
		spec.Containers[0].Image == "" {
		t.Errorf("%s has %d containers, of which the first requests CPU %s", target,
			len(spec.Containers), cpu)
	}
}

// testPatchedKubelets checks the Pod capacity of each Node and its kubelet configuration; the
// shared ConfigMap kubelet-config is not patched.
func testPatchedKubelets(t *testing.T, s *haCluster, limits map[string]string) {
	await(t, "all nodes", waitLimit, func() error {
		if known := len(readObject[corev1.NodeList](t, s.cp, "nodes").Items); known != len(limits) {
			return fmt.Errorf("there are %d", known)
		}
		return nil
	})
	for name, want := range limits {
		capacity := readObject[corev1.Node](t, s.cp, "node", name).Status.Capacity
		if got := capacity.Pods().String(); got != want {
			t.Errorf("the Node %s has capacity for %s Pods, want %s", name, got, want)
		}
		config := readFile(t, s.Node(name), "/var/lib/kubelet/config.yaml")
		for _, line := range []string{"registryPullQPS: 11", "registryBurst: 12",
			"eventBurst: 13"} {
			if !slices.Contains(strings.Split(config, "\n"), line) {
				t.Errorf("%s: config.yaml lacks %q:\n%s", name, line, config)
			}
		}
	}
	shared := readObject[corev1.ConfigMap](t, s.cp, "--namespace=kube-system", "configmap",
		"kubelet-config").Data["kubelet"]
	if strings.Contains(shared, "maxPods") {
		t.Errorf("the ConfigMap kubelet-config holds a node's patch:\n%s", shared)
	}
}

// testPatchedAddons checks the addons, which a control plane node has deployed last.
func testPatchedAddons(t *testing.T, s *haCluster, by *nodes.Node) {
	d := readObject[appsv1.Deployment](t, s.cp, "--namespace=kube-system", "deployment", "coredns")
	checkPatched(t, by, "corednsdeployment", d.Spec.Template.ObjectMeta, d.Spec.Template.Spec)
	p := readObject[appsv1.DaemonSet](t, s.cp, "--namespace=kube-system", "daemonset", "kube-proxy")
	checkPatched(t, by, "kubeproxydaemonset", p.Spec.Template.ObjectMeta, p.Spec.Template.Spec)
}
