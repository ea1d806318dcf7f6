package existing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// RemoveTemporary removes the temporary files of writes that were killed, and temporary links. A run after that may find the
// file as it wants it, and so would never write it again: the temporary one, which may hold a key, would stay. The lock of
// the machine, which the caller holds, keeps other runs from writing meanwhile, in one mount namespace: a run in a container
// that has these directories but another directory of locks is not kept from it. Without root privileges there is no lock,
// and nothing is removed. What cannot be removed is a warning: the command does not need that.
func RemoveTemporary(ctx context.Context, e *engine.Env, p node.Paths) {
	host, err := e.World.Host(ctx)
	if err == nil && host.UserID != 0 {
		return
	}
	if err != nil {
		warnOfTemporary(ctx, e, "looking for temporary files of interrupted runs", err)
		return
	}
	dirs := listOwnDirs(ctx, e.World, p)
	for _, dir := range dirs {
		removeTemporaryIn(ctx, e, dir, func(string) bool { return true })
	}
	for _, file := range p.KubeletEnvFiles() {
		if dir := path.Dir(file); !slices.Contains(dirs, dir) { // which others use too
			removeTemporaryIn(ctx, e, dir, func(name string) bool { return name == path.Base(file) })
		}
	}
}

// removeTemporaryIn removes regular files and links in a directory that have the name of a temporary one of a file that
// kubeadm writes there.
func removeTemporaryIn(ctx context.Context, e *engine.Env, dir string, isOwn func(name string) bool) {
	files, err := readDir(ctx, e.World, dir)
	if err != nil {
		warnOfTemporary(ctx, e, "looking for temporary files of interrupted runs", err)
	}
	for _, f := range files {
		name := change.NameOfTemporary(path.Base(f.Path))
		isFile := f.Mode.IsRegular() || f.Mode.Type() == fs.ModeSymlink
		if name == "" || !isFile || !isOwn(name) {
			continue
		}
		if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
			warnOfTemporary(ctx, e, "removing a temporary file of an interrupted run", fmt.Errorf("%w; %s", err,
				untrusted.CommandHint("once that is possible, remove it", "rm", f.Path)))
		}
	}
}

// warnOfTemporary warns, unless the command ends anyway.
func warnOfTemporary(ctx context.Context, e *engine.Env, op string, err error) {
	if ctx.Err() == nil {
		e.Warn("%s: %v", op, err)
	}
}

// listOwnDirs lists the directories in which kubeadm writes files, with those of backups and records.
func listOwnDirs(ctx context.Context, r state.Reader, p node.Paths) []string {
	signer, _ := p.RotationSigner()
	dirs := []string{p.Manifests(), p.Kubernetes, p.Kubeconfigs, p.Certificates, p.Certificate("etcd"), path.Dir(signer),
		p.Kubelet, path.Join(p.Kubelet, "pki"), p.Tmp()}
	inside, _ := readDir(ctx, r, p.Tmp()) // an error is reported when that is read itself
	for _, f := range inside {
		if f.Mode.IsDir() && strings.HasPrefix(path.Base(f.Path), "kubeadm-") {
			dirs = append(dirs, f.Path)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// readDir lists a directory that need not exist.
func readDir(ctx context.Context, r state.Reader, dir string) ([]state.FileInfo, error) {
	files, err := r.ReadDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}
