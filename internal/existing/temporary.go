package existing

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// RemoveTemporary removes the temporary files of writes that were killed. A run after that may find the file as it
// wants it, and so would never write it again: the temporary one, which may hold a key, would stay. The lock of the
// machine, which the caller holds, keeps other runs from writing meanwhile. Without root privileges there is no lock,
// and nothing is removed.
func RemoveTemporary(ctx context.Context, e *engine.Env, p node.Paths) error {
	host, err := e.World.Host(ctx)
	if err != nil || host.UserID != 0 {
		return err
	}
	found, err := listTemporary(ctx, e.World, p)
	if err != nil {
		return problem.During("looking for temporary files of interrupted runs", err)
	}
	for _, file := range found {
		if err := e.Do(ctx, change.Remove{Path: file}); err != nil {
			return problem.During("removing a temporary file of an interrupted run", err, untrusted.CommandHint("remove it", "rm", file))
		}
	}
	return nil
}

// listTemporary lists the regular files with the name of a temporary one in the directories of kubeadm. A directory
// that others use too counts only for the files that kubeadm writes there.
func listTemporary(ctx context.Context, r state.Reader, p node.Paths) (all []string, err error) {
	add := func(dir string, isOwn func(name string) bool) error {
		files, err := readDir(ctx, r, dir)
		for _, f := range files {
			name := change.NameOfTemporary(path.Base(f.Path))
			if name != "" && f.Mode.IsRegular() && isOwn(name) {
				all = append(all, f.Path)
			}
		}
		return err
	}
	dirs, err := listOwnDirs(ctx, r, p)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := add(dir, func(string) bool { return true }); err != nil {
			return nil, err
		}
	}
	for _, file := range p.KubeletEnvFiles() {
		if dir := path.Dir(file); !slices.Contains(dirs, dir) {
			if err := add(dir, func(name string) bool { return name == path.Base(file) }); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// listOwnDirs lists the directories in which kubeadm writes files, with those of backups and records.
func listOwnDirs(ctx context.Context, r state.Reader, p node.Paths) ([]string, error) {
	signer, _ := p.RotationSigner()
	dirs := []string{p.Manifests(), p.Kubernetes, p.Kubeconfigs, p.Certificates, p.Certificate("etcd"), path.Dir(signer),
		p.Kubelet, path.Join(p.Kubelet, "pki"), p.Tmp()}
	inside, err := readDir(ctx, r, p.Tmp())
	for _, f := range inside {
		if f.Mode.IsDir() && strings.HasPrefix(path.Base(f.Path), "kubeadm-") {
			dirs = append(dirs, f.Path)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), err
}

// readDir lists a directory that need not exist.
func readDir(ctx context.Context, r state.Reader, dir string) ([]state.FileInfo, error) {
	files, err := r.ReadDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}
