package parity

import (
	"os"
	"path"
	"strings"
	"sync"
	"testing"
)

// stages are states of a machine from which cases start: what the peer has made there with these commands. Both programs
// then find the same keys and certificates.
func stages() map[string][]string {
	all := []string{"init phase certs all --config=/base.yaml", "init phase kubeconfig all --config=/base.yaml"}
	return map[string][]string{
		"pki":   all,
		"plane": append(all, "init phase etcd local --config=/base.yaml", "init phase control-plane all --config=/base.yaml"),
		"requests": {
			"certs generate-csr --config=/base.yaml --kubeconfig-dir=/etc/kubernetes --cert-dir=/etc/kubernetes/pki",
		},
	}
}

var made = struct {
	sync.Mutex
	trees map[string]map[string]left
}{trees: map[string]map[string]left{}}

// staged is what is there at a stage; it is made once.
func staged(t *testing.T, name string) map[string]left {
	made.Lock()
	defer made.Unlock()
	if tree, ok := made.trees[name]; ok {
		return tree
	}
	var steps [][]string
	for _, line := range stages()[name] {
		steps = append(steps, strings.Fields(line))
	}
	m := machine{files: withFiles("/base.yaml", basis().text())}
	o := m.run(t, os.Getenv("KUBEADM_PEER"), steps)
	tree := map[string]left{}
	for _, s := range o.steps {
		if s.Exit != 0 {
			t.Fatalf("the peer cannot make the stage %s: %s", name, s.Err)
		}
	}
	for file, f := range o.tree {
		if f.mode.IsRegular() && (strings.HasPrefix(file, "/etc/") || path.Dir(file) == "/") {
			tree[file] = f
		}
	}
	for file, content := range m.files {
		tree[file] = left{mode: 0o644, data: content}
	}
	made.trees[name] = tree
	return tree
}
