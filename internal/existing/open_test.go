package existing

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/world/memory"
)

// A command accesses the cluster as the administrator at the API server beside it, or as the kubelet of
// a worker, unless the user names another kubeconfig.
func TestOpenFindsIdentity(t *testing.T) {
	const admin, other = "/etc/kubernetes/admin.conf", "/root/other.conf"
	for name, c := range map[string]struct {
		files        []string
		options      Options
		file, server string // of the identity
		err          string // part of the error, with its hints
	}{
		"a control plane": {files: []string{apiManifest, admin}, file: admin,
			server: "https://192.0.2.10:6443"},
		"a control plane, another kubeconfig": {files: []string{apiManifest, other},
			options: Options{Kubeconfig: other}, file: other},
		"a control plane without admin.conf": {files: []string{apiManifest},
			err: "kubeconfig " + admin + " does not exist"},
		"a simulated control plane": {files: []string{apiManifest},
			options: Options{Simulated: true}, file: admin, server: "https://192.0.2.10:6443"},
		"a worker": {file: kubeletConf},
		"a worker, another kubeconfig": {files: []string{other},
			options: Options{Kubeconfig: other}, file: other},
		"a worker, a missing kubeconfig": {options: Options{Kubeconfig: other},
			err: "kubeconfig " + other + " does not exist"},
		"a worker where a control plane is needed": {
			options: Options{OnlyControlPlane: "on a worker: do that"}, err: "on a worker: do that"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNodeMachine(t)
			for _, file := range c.files {
				w.Files[file] = memory.File{Data: []byte("{metadata: {annotations: " +
					"{kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: '192.0.2.10:6443'}}}"),
					Mode: 0o600}
			}
			e := engine.New(engine.Env{World: w, Local: node.Local{Paths: node.DefaultPaths()},
				Emit: func(engine.Event) {}})
			got, err := Open(t.Context(), e, c.options)
			if c.err != "" {
				if err == nil || !strings.Contains(
					strings.Join(append(problem.Hints(err), err.Error()), "\n"), c.err) {
					t.Errorf("got error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || got.As.Kubeconfig != c.file || got.As.Server != c.server ||
				got.Name != "node-7" {
				t.Errorf("got %+v: %v", got, err)
			}
		})
	}
}

// What is left of a damaged machine is told, whichever file is lost.
func TestRemainsOfDamagedMachine(t *testing.T) {
	manager := "/etc/kubernetes/controller-manager.conf"
	for name, c := range map[string]struct {
		lose, files []string
		role        node.Role
		name        string
		address     string
		isNode      bool
	}{
		"a worker":                      {role: node.Worker, name: "node-7", isNode: true},
		"a worker without kubelet.conf": {lose: []string{kubeletConf}, role: node.Worker, name: "cp1"},
		"a control plane of which only the certificate is left": {lose: []string{kubeletConf},
			files: []string{"/etc/kubernetes/pki/apiserver.crt"}, role: node.ControlPlane, name: "cp1",
			isNode: true},
		"a control plane with a broken manifest": {files: []string{apiManifest, manager},
			role: node.ControlPlane, name: "node-7", address: "192.0.2.10", isNode: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNodeMachine(t)
			for _, file := range c.files {
				w.Files[file] = memory.File{Data: []byte("["), Mode: 0o600}
			}
			if slices.Contains(c.files, manager) {
				w.Files[manager] = memory.File{Data: []byte(newTokenConfig(t)), Mode: 0o600}
			}
			for _, file := range c.lose {
				delete(w.Files, file)
			}
			got := ReadRemains(t.Context(), w, node.Local{Paths: node.DefaultPaths()})
			if got.Role != c.role || got.Name != c.name || got.Address != c.address ||
				got.IsNode != c.isNode {
				t.Errorf("got %+v", got)
			}
			_, hasManifest := w.Files[apiManifest]
			if hasManifest != (got.Broken != nil) || errors.Is(got.Broken, fs.ErrNotExist) {
				t.Errorf("the broken manifest is reported as %v", got.Broken)
			}
		})
	}
}
