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
	"kubeadm/internal/state"
)

// Patiently waits for what needs the files of this machine. The user reads at once which of them
// are missing, as a phase that makes them was left out, and again when the wait was in vain.
func Patiently(ctx context.Context, e *flow.Env, n *node.Node, wait func() error) error {
	return Before(ctx, e, n, nil, wait)
}

// Before is Patiently for what comes before the static Pods of these programs have their manifests.
func Before(ctx context.Context, e *flow.Env, n *node.Node, programs []string, wait func() error) error {
	var later []string
	for _, p := range programs {
		later = append(later, n.Paths.Manifest(p))
	}
	missing := missing(ctx, e.World, n, later)
	for _, m := range missing {
		e.Warn("%s", m)
	}
	err := wait()
	if err == nil || len(missing) == 0 {
		return err
	}
	return problem.New("", err, missing...)
}

// source is a file that a kubelet or a component needs, and the phase that makes it.
type source struct{ file, phase string }

func missing(ctx context.Context, r state.Reader, n *node.Node, later []string) []string {
	var all []string
	for _, s := range sources(n) {
		if slices.Contains(later, s.file) {
			continue
		}
		if _, err := r.Stat(ctx, s.file); errors.Is(err, fs.ErrNotExist) {
			all = append(all, fmt.Sprintf("%s does not exist: run the %s phase first", s.file, s.phase))
		}
	}
	return all
}

func sources(n *node.Node) []source {
	p := n.Paths
	all := []source{{p.KubeletConfig(), "kubelet-start"}}
	if n.Role != node.ControlPlane {
		return all
	}
	for _, program := range manifest.Components() {
		all = append(all, source{p.Manifest(program), made(n, "control-plane", strings.TrimPrefix(program, "kube-"))})
	}
	all = append(all, source{p.Certificate(pki.ServiceAccountKey), made(n, "certs", "sa")})
	local, _ := node.LocalEtcd(n)
	if local {
		all = append(all, source{p.Manifest(manifest.Etcd), map[bool]string{false: "etcd/local", true: "etcd-join"}[n.Joins()]})
	}
	for _, c := range pki.Profiles() {
		if local || !c.LocalEtcdOnly() {
			all = append(all, source{p.Cert(c.Base), made(n, "certs", c.Name)})
		}
	}
	for _, k := range pki.KubeconfigProfiles() {
		// The super administrator's is for emergencies and may lie elsewhere.
		if k.Name != "super-admin" && (k.OnJoin || !n.Joins()) {
			all = append(all, source{p.Kubeconfig(k.File), made(n, "kubeconfig", k.Name)})
		}
	}
	return all
}

// made is the phase that makes one of the files of a group: a join has one phase for all of a group.
func made(n *node.Node, group, name string) string {
	if n.Joins() {
		return "control-plane-prepare/" + group
	}
	return group + "/" + name
}
