package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/problem"
)

// ExceptManifests selects all files but the manifests of components that are written later.
func ExceptManifests(n *node.Node, later ...string) func(phaseindex.File) bool {
	return func(f phaseindex.File) bool {
		return !slices.ContainsFunc(later,
			func(component string) bool { return n.Paths.Manifest(component) == f.Path })
	}
}

// WaitCheckingFiles calls wait, which needs the selected files of this machine. It warns first about
// files that do not exist, as the phase that creates them was skipped, and adds these warnings to
// the error of the wait.
func WaitCheckingFiles(ctx context.Context, e *engine.Env, n *node.Node,
	isSelected func(phaseindex.File) bool, wait func() error) error {
	localEtcd, _ := node.HasLocalEtcd(n)
	command := "kubeadm init phase "
	if n.IsJoining() {
		command = "kubeadm join phase "
	}
	var missing []string
	for _, f := range phaseindex.Files(n.Local, n.IsJoining()) {
		// Of a key and its certificate one is enough. super-admin.conf is for emergencies, and the
		// user may have moved it away.
		isNeeded := f.Kind != phaseindex.PublicKey &&
			(f.Kind != phaseindex.PrivateKey || f.Name == "sa") && f.Name != "super-admin"
		if !isNeeded || !isSelected(f) || f.LocalEtcd && !localEtcd {
			continue
		}
		if _, err := e.World.Stat(ctx, f.Path); errors.Is(err, fs.ErrNotExist) {
			text := fmt.Sprintf("%s does not exist; run this phase first: %s", f.Path,
				command+f.Phase.Command())
			e.Warn("%s", text)
			missing = append(missing, text)
		}
	}
	err := wait()
	if err == nil || len(missing) == 0 {
		return err
	}
	return problem.New(err, missing...)
}
