package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// Patiently waits for what needs the files of this machine. The user reads at once which of them
// are missing, as a phase that makes them was left out, and again when the wait was in vain.
func Patiently(ctx context.Context, e *flow.Env, n *node.Node, wait func() error) error {
	missing := missing(ctx, e.World, n)
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

func missing(ctx context.Context, r change.Reader, n *node.Node) []string {
	var all []string
	for _, s := range sources(n) {
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
	all = append(all,
		source{p.Manifest(release.APIServer), "control-plane/apiserver"},
		source{p.Manifest(release.ControllerManager), "control-plane/controller-manager"},
		source{p.Manifest(release.Scheduler), "control-plane/scheduler"},
		source{p.Certificate(pki.ServiceAccountKey), "certs/sa"})
	local, _ := node.LocalEtcd(n)
	if local {
		all = append(all, source{p.Manifest("etcd"), "etcd/local"})
	}
	for _, c := range pki.Profiles() {
		if local || !c.LocalEtcdOnly() {
			all = append(all, source{p.Cert(c.Base), "certs/" + c.Name})
		}
	}
	for _, k := range pki.KubeconfigProfiles() {
		if k.Name != "super-admin" { // is for emergencies and may lie elsewhere
			all = append(all, source{p.Kubeconfig(k.File), "kubeconfig/" + k.Name})
		}
	}
	return all
}
