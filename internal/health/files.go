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

// WaitCheckingFiles calls wait, which needs the files of this machine. It warns first about files
// that do not exist, as the phase that creates them was skipped, and adds these warnings to the
// error of the wait. The manifests of the later components need not exist yet.
func WaitCheckingFiles(ctx context.Context, e *engine.Env, n *node.Node, later []string,
	wait func() error) error {
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
		isLater := slices.ContainsFunc(later,
			func(component string) bool { return n.Paths.Manifest(component) == f.Path })
		if !isNeeded || isLater || f.LocalEtcd && !localEtcd {
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
	return problem.New("", err, missing...)
}
