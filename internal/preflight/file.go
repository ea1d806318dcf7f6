package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// leftoverHint says what to do about files that may be of another cluster.
const leftoverHint = `if it is left over from another cluster, clean up with "kubeadm reset"; else move it away`

// dashPath returns a path as the names of checks spell it.
func dashPath(path string) string { return strings.ReplaceAll(path, "/", "-") }

// kubeletTargets returns the targets that a run made if it has got as far as starting the kubelet.
func kubeletTargets(p node.Paths) []string {
	return []string{change.FileTarget(p.KubeletConfig()),
		change.SetService{Name: "kubelet"}.Target()}
}

// newKubeletCredentialChecks checks that a machine has no kubelet credentials before a join. The
// kubelet creates kubelet.conf by itself from bootstrap-kubelet.conf, so a run of ours that
// started the kubelet caused it.
func newKubeletCredentialChecks(p node.Paths) []Check {
	bootstrap := p.BootstrapKubeconfig()
	return []Check{
		newFileAvailableCheck(p.KubeletKubeconfig(),
			append(kubeletTargets(p), change.FileTarget(bootstrap))...),
		newFileAvailableCheck(bootstrap),
	}
}

func newManifestChecks(p node.Paths) []Check {
	var list []Check
	for _, name := range []string{release.APIServer, release.ControllerManager, release.Scheduler,
		etcd} {
		list = append(list, newFileAvailableCheck(p.Manifest(name)))
	}
	return list
}

// newFileAvailableCheck checks that there is no file at path, unless an unfinished run of the same
// command made it or one of the targets that cause it.
func newFileAvailableCheck(path string, causes ...string) Check {
	causes = append(causes, change.FileTarget(path))
	return Check{Name: "FileAvailable-" + dashPath(path),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			switch _, err := r.Stat(ctx, path); {
			case err == nil && !slices.ContainsFunc(causes, r.WasCreated):
				rep.Fail(leftoverHint, "%s already exists", path)
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				rep.fail(state.ExplainMisplaced(ctx, r, path, err))
			}
		}}
}

// newDirAvailableCheck checks that a directory is absent or empty, unless an unfinished run of the
// same command made one of the targets that cause its contents.
func newDirAvailableCheck(path string, causes ...string) Check {
	return Check{Name: "DirAvailable-" + dashPath(path),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			inside, err := r.ReadDir(ctx, path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				rep.Fail("make it an empty directory or remove it", "reading directory %s: %v",
					path, err)
			case len(inside) > 0 && node.IsSystemDir(path):
				rep.Fail("use a separate directory, such as /var/lib/etcd",
					"%s is not empty, and belongs to the operating system", path)
			case len(inside) > 0 && !slices.ContainsFunc(causes, r.WasCreated):
				rep.Fail(leftoverHint, "%s is not empty", path)
			}
		}}
}

// newProgramCheck checks that a program is in PATH.
func newProgramCheck(program string) Check {
	return Check{Name: "FileExisting-" + program,
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			if _, err := r.Program(ctx, program); err != nil {
				rep.Fail("install its package (find it with apt-file or dnf provides), or correct PATH",
					"%v", programNotFoundError(ctx, r, program, err))
			}
		}}
}

// programNotFoundError says that a program was not found, with the PATH of this process: under
// sudo that is often not the user's.
func programNotFoundError(ctx context.Context, r state.Reader, program string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("program %q: %w", program, err)
	}
	searched := "which is not set"
	h, err := r.Host(ctx)
	if err != nil {
		searched = "not known"
	}
	for _, e := range h.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			searched = path
		}
	}
	return fmt.Errorf("program %q is not in PATH (%s)", program, searched)
}
