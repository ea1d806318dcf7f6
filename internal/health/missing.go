package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
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

func missing(ctx context.Context, r state.Reader, n *node.Node, later []string) []string {
	local, _ := node.LocalEtcd(n)
	var all []string
	for _, f := range phaseindex.Files(n.Local, n.Joins()) {
		// super-admin.conf is for emergencies and may be kept in another place; keys are missed by their certificates.
		isNeeded := f.Kind != phaseindex.PublicKey && (f.Kind != phaseindex.PrivateKey || f.Name == "sa") && f.Name != "super-admin"
		if !isNeeded || f.LocalEtcd && !local || slices.Contains(later, f.Path) {
			continue
		}
		if _, err := r.Stat(ctx, f.Path); errors.Is(err, fs.ErrNotExist) {
			all = append(all, fmt.Sprintf("%s does not exist: run the %s phase first", f.Path, f.Phase))
		}
	}
	return all
}
