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

// leftover is the way out where something of another cluster may be in the way.
const leftover = `if it is left over from another cluster, clean up with "kubeadm reset"; else move it away`

// dashed is a path as the names of checks spell it.
func dashed(path string) string { return strings.ReplaceAll(path, "/", "-") }

// made tells whether an earlier, unfinished run of this same command made one of the targets:
// what follows from them is then our own doing and no obstacle.
func made(r state.Reader, targets ...string) bool { return slices.ContainsFunc(targets, r.Made) }

// kubeletTargets are what only a run of ours that has come to the kubelet has made.
func kubeletTargets(p node.Paths) []string {
	return []string{change.FileTarget(p.KubeletConfig()), change.SetService{Name: "kubelet"}.Target()}
}

// kubeletCredentials must not be there before a join. The kubelet itself turns the second
// into the first, so the first is ours wherever a run of ours has come to the kubelet.
func kubeletCredentials(p node.Paths) []Check {
	bootstrap := p.BootstrapKubeconfig()
	return []Check{
		fileAvailable(p.KubeletKubeconfig(), append(kubeletTargets(p), change.FileTarget(bootstrap))...),
		fileAvailable(bootstrap),
	}
}

func controlPlaneManifests(p node.Paths) []Check {
	var list []Check
	for _, name := range []string{release.APIServer, release.ControllerManager, release.Scheduler, etcd} {
		list = append(list, fileAvailable(p.Manifest(name)))
	}
	return list
}

// fileAvailable wants nothing to be at path, unless a run of ours made it or one of the causes.
func fileAvailable(path string, causes ...string) Check {
	causes = append(causes, change.FileTarget(path))
	return Check{Name: "FileAvailable-" + dashed(path), Run: func(ctx context.Context, r state.Reader, rep *Report) {
		switch _, err := r.Stat(ctx, path); {
		case err == nil && !made(r, causes...):
			rep.Fail(leftover, "%s already exists", path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			rep.fail(state.ExplainMisplaced(ctx, r, path, err))
		}
	}}
}

// dirAvailable wants a folder to be absent or empty, unless a run of ours made one of the causes.
func dirAvailable(path string, causes ...string) Check {
	return Check{Name: "DirAvailable-" + dashed(path), Run: func(ctx context.Context, r state.Reader, rep *Report) {
		inside, err := r.ReadDir(ctx, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			rep.Fail("make it an empty directory or remove it", "looking into %s: %v", path, err)
		case len(inside) > 0 && node.OfSystem(path):
			rep.Fail("name a directory of its own, such as /var/lib/etcd",
				"%s is not empty, and belongs to the operating system", path)
		case len(inside) > 0 && !made(r, causes...):
			rep.Fail(leftover, "%s is not empty", path)
		}
	}}
}

// fileExisting wants a program to be in PATH.
func fileExisting(program string) Check {
	return Check{Name: "FileExisting-" + program, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		if _, err := r.Program(ctx, program); err != nil {
			rep.Fail("install the package that brings it (see apt-file or dnf provides), or mend PATH", "%v", missing(ctx, r, program, err))
		}
	}}
}

// missing says that a program was not found, and where it was looked for.
func missing(ctx context.Context, r state.Reader, program string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("program %q: %w", program, err)
	}
	return fmt.Errorf("program %q is not in PATH (%s)", program, searchPath(ctx, r))
}

// searchPath is the PATH of this program, which under sudo is often not the user's.
func searchPath(ctx context.Context, r state.Reader) string {
	h, err := r.Host(ctx)
	if err != nil {
		return "not known"
	}
	for _, e := range slices.Backward(h.Env) {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return "which is not set"
}
