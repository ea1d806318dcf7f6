package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// WaitCheckingFiles calls wait, which needs the files of this machine. It warns first about files
// that do not exist, as the phase that creates them was skipped, and adds these warnings to the
// error of the wait. The manifests of the later components need not exist yet.
func WaitCheckingFiles(ctx context.Context, e *flow.Env, n *node.Node, later []string, wait func() error) error {
	var missing []string
	for _, f := range listNeededFiles(n) {
		if slices.ContainsFunc(later, func(component string) bool { return n.Paths.Manifest(component) == f.path }) {
			continue
		}
		if _, err := e.World.Stat(ctx, f.path); errors.Is(err, fs.ErrNotExist) {
			text := fmt.Sprintf("%s does not exist: run the %s phase first", f.path, f.phase)
			e.Warn("%s", text)
			missing = append(missing, text)
		}
	}
	err := wait()
	if err == nil || len(missing) == 0 {
		return err
	}
	return problem.New("", err, missing...)
}

// neededFile is a file that the kubelet or a component needs, and the phase that creates it.
type neededFile struct{ path, phase string }

func listNeededFiles(n *node.Node) []neededFile {
	p := n.Paths
	all := []neededFile{{p.KubeletConfig(), "kubelet-start"}}
	if n.Role != node.ControlPlane {
		return all
	}
	for _, program := range manifest.Components() {
		all = append(all, neededFile{p.Manifest(program), phaseOf(n, "control-plane", strings.TrimPrefix(program, "kube-"))})
	}
	all = append(all, neededFile{p.Certificate(pki.ServiceAccountKey), phaseOf(n, "certs", "sa")})
	local, _ := node.LocalEtcd(n)
	if local && n.Joins() {
		all = append(all, neededFile{p.Manifest(manifest.Etcd), "etcd-join"})
	} else if local {
		all = append(all, neededFile{p.Manifest(manifest.Etcd), "etcd/local"})
	}
	for _, c := range pki.Profiles() {
		if local || !c.LocalEtcdOnly() {
			all = append(all, neededFile{p.Cert(c.Base), phaseOf(n, "certs", c.Name)})
		}
	}
	for _, k := range pki.KubeconfigProfiles() {
		// super-admin.conf is for emergencies, and the user may have moved it away.
		if k.Name != "super-admin" && (k.OnJoin || !n.Joins()) {
			all = append(all, neededFile{p.Kubeconfig(k.File), phaseOf(n, "kubeconfig", k.Name)})
		}
	}
	return all
}

// phaseOf returns the phase that creates a file of a group: a join has one phase for the whole
// group.
func phaseOf(n *node.Node, group, name string) string {
	if n.Joins() {
		return "control-plane-prepare/" + group
	}
	return group + "/" + name
}
