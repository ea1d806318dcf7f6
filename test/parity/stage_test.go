package parity

import (
	"maps"
	"os"
	"path"
	"strings"
	"sync"
	"testing"

	"k8s.io/cluster-bootstrap/token/jws"
	"sigs.k8s.io/yaml"
)

// stages are initial states of a machine: the result of these commands of upstream's kubeadm. So
// both programs start with the same keys and certificates. The machine of the stage "older" is the
// control plane node of a cluster of the previous release.
func stages() map[string][]string {
	all := []string{"init phase certs all --config=/base.yaml",
		"init phase kubeconfig all --config=/base.yaml"}
	return map[string][]string{
		"pki": all,
		"plane": append(all, "init phase etcd local --config=/base.yaml",
			"init phase control-plane all --config=/base.yaml"),
		"cluster": {"init --dry-run --skip-phases=preflight --config=/base.yaml"},
		"older":   {"init --dry-run --skip-phases=preflight --config=/base.yaml"},
		"requests": {
			"certs generate-csr --config=/base.yaml --kubeconfig-dir=/etc/kubernetes --cert-dir=/etc/kubernetes/pki",
		},
	}
}

var stageCache = struct {
	sync.Mutex
	trees map[string]map[string]fileState
}{trees: map[string]map[string]fileState{}}

// buildStage returns the files of a stage; it is built once.
func buildStage(t *testing.T, name string) map[string]fileState {
	stageCache.Lock()
	defer stageCache.Unlock()
	if tree, ok := stageCache.trees[name]; ok {
		return tree
	}
	var steps [][]string
	for _, line := range stages()[name] {
		steps = append(steps, strings.Fields(line))
	}
	config := baseConfig()
	if name == "older" {
		config = documents{"ClusterConfiguration": {"kubernetesVersion": olderRelease}}.mergeInto(
			config)
	}
	m := machine{files: withFiles("/base.yaml", config.text())}
	o := m.run(t, os.Getenv("KUBEADM_PEER"), steps)
	tree := map[string]fileState{}
	for _, s := range o.steps {
		if s.Exit != 0 {
			t.Fatalf("building the stage %s with upstream's kubeadm: %s", name, s.Err)
		}
	}
	for file, f := range o.tree {
		if f.mode.IsRegular() && (strings.HasPrefix(file, "/etc/") || path.Dir(file) == "/") {
			tree[file] = f
		}
	}
	if name == "cluster" || name == "older" {
		maps.Copy(tree, clusterFiles(t, o))
	}
	if name == "older" {
		addControlPlaneNode(t, tree)
	}
	for file, content := range m.files {
		tree[file] = fileState{mode: 0o644, data: content}
	}
	stageCache.trees[name] = tree
	return tree
}

// clusterFiles returns what the API server needs, taken from a dry run: its certificate and
// objects, and admin.conf.
func clusterFiles(t *testing.T, o outcome) map[string]fileState {
	tree := map[string]fileState{}
	for file, f := range o.tree {
		if rest, ok := strings.CutPrefix(file, "/dry/"); ok && f.mode.IsRegular() {
			tree["/cluster/before/"+rest] = f
		}
	}
	tree["/etc/kubernetes/admin.conf"] = o.tree["/dry/admin.conf"]
	objects := []string{"apiVersion: v1\nkind: Node\nmetadata:\n  name: cp1\n  labels: {kubernetes.io/hostname: cp1}\n"}
	for _, p := range splitParagraphs(o.steps[0].Out) {
		if !strings.HasPrefix(p.head, "[dryrun] Attached object:") {
			continue
		}
		text, _, _ := strings.Cut(p.body, "\n\n")
		var v object
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if documentKind(v) == "Node" {
			continue
		}
		if metadataField(v, "name") == "cluster-info" {
			signClusterInfo(t, v)
		}
		data, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, string(data))
	}
	tree["/cluster/before/objects.yaml"] = fileState{mode: 0o644,
		data: strings.Join(objects, "\n---\n")}
	return tree
}

// olderRelease is the version of the cluster of the stage "older".
const olderRelease = "v1.36.3"

// addControlPlaneNode adds what makes the machine of a cluster its control plane node: the files
// of the dry run where they belong, the Node's status and the mirror Pods.
func addControlPlaneNode(t *testing.T, tree map[string]fileState) {
	objects := tree["/cluster/before/objects.yaml"]
	for file, f := range maps.Clone(tree) {
		name, ok := strings.CutPrefix(file, "/cluster/before/")
		if !ok || name == "objects.yaml" {
			continue
		}
		dir := "/etc/kubernetes/pki/"
		switch {
		case name == "config.yaml" || name == "instance-config.yaml" || path.Ext(name) == ".env":
			dir = "/var/lib/kubelet/"
		case path.Ext(name) == ".yaml":
			dir = "/etc/kubernetes/manifests/"
			objects.data += "\n---\n" + mirrorPod(t, f.data, hostname)
		case path.Ext(name) == ".conf":
			dir = "/etc/kubernetes/"
		}
		tree[dir+name] = f
	}
	objects.data += "\n---\n" + readyNode(hostname, olderRelease)
	tree["/cluster/before/objects.yaml"] = objects
}

// mirrorPod returns the Pod by which a node's kubelet shows a static Pod.
func mirrorPod(t *testing.T, manifest, node string) string {
	var pod object
	if err := yaml.Unmarshal([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	pod = mergeMaps(pod, object{
		"metadata": object{"name": metadataField(pod, "name") + "-" + node,
			"annotations": object{"kubernetes.io/config.hash": "0123456789abcdef"}},
		"spec": object{"nodeName": node}, "status": object{"phase": "Running"},
	})
	data, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// readyNode returns the Node of a control plane whose kubelet has a version.
func readyNode(name, kubelet string) string {
	return "{apiVersion: v1, kind: Node, metadata: {name: " + name +
		", labels: {kubernetes.io/hostname: " + name + `, node-role.kubernetes.io/control-plane: ""}},` +
		" status: {nodeInfo: {kubeletVersion: " + kubelet +
		"}, conditions: [{type: Ready, status: 'True'}]}}\n"
}

// signClusterInfo adds the signature with the token to cluster-info.
func signClusterInfo(t *testing.T, info object) {
	data := info["data"].(object)
	signature, err := jws.ComputeDetachedSignature(data["kubeconfig"].(string), "abcdef",
		"0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	data["jws-kubeconfig-abcdef"] = signature
}
