package nodename

import (
	"slices"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// A kubelet cannot create another Node: on a worker, the commands name the kubeconfig of an administrator.
func TestCommandsOnWorker(t *testing.T) {
	for name, c := range map[string]struct{ manifest, suffix string }{
		"a worker":             {"", " --kubeconfig ADMIN.CONF"},
		"a control plane node": {"/etc/kubernetes/manifests/kube-apiserver.yaml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			w.Files[renamePath(node.DefaultPaths())] = memory.File{Mode: 0o600,
				Data: []byte(`{"original": "w1", "other": "rack7", "to": "rack7"}`)}
			if c.manifest != "" {
				w.Files[c.manifest] = memory.File{Mode: 0o600}
			}
			r, err := ReadRename(t.Context(), w, node.DefaultPaths())
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"complete it: kubeadm node-name change rack7" + c.suffix,
				"or take it back, as long as that Node exists: kubeadm node-name change w1" + c.suffix}
			if got := problem.Hints(r.NewIncompleteError()); !slices.Equal(got, want) {
				t.Errorf("the hints are %q", got)
			}
			s := Status{Change: r}
			s.findNext(Kubelet{})
			if s.Next != "kubeadm node-name change rack7"+c.suffix {
				t.Errorf("next is %q", s.Next)
			}
		})
	}
}
