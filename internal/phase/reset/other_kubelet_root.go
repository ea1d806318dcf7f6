package reset

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// rootDirArgument matches the kubelet's argument with the directory of its volumes and state.
var rootDirArgument = regexp.MustCompile(`--root-dir[= ]+["']?([^\s"']+)`)

// kubeletState is what a kubelet keeps in its root directory. Others may have files beside it.
var kubeletState = [...]string{"actuated_pods_state", "allocated_pods_state", "checkpoints", "cpu_manager_state", "device-plugins",
	"dra_manager_state", "image_manager", "memory_manager_state", "plugins", "plugins_registry", "pod-resources", "pods", "pods-api", "userns"}

// findKubeletRoot returns the directory in which the kubelet keeps volumes and state, if its arguments name another one than
// kubeadm's; otherwise it is empty. It is read before the arguments are removed.
func findKubeletRoot(ctx context.Context, e *engine.Env) (dir string) {
	own := e.Local.Paths.Kubelet
	for _, file := range e.Local.Paths.KubeletEnvFiles() {
		data, err := state.ReadOptional(ctx, e.World, file)
		if err != nil {
			e.Warn("another root directory of the kubelet is not looked for: %v", err)
			continue
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for _, found := range rootDirArgument.FindAllStringSubmatch(line, -1) {
				dir = path.Clean(found[1]) // the last one counts
			}
		}
	}
	isWithin := strings.HasPrefix(dir+"/", own+"/") // and is removed with that
	switch {
	case dir == "" || isWithin:
		return ""
	case !path.IsAbs(dir) || node.IsSystemDir(dir) || strings.HasPrefix(own+"/", dir+"/"):
		e.Warn("the kubelet's root directory %q is not dedicated to it, so nothing is removed there", dir)
		return ""
	}
	return dir
}

// removeKubeletRoot removes what the kubelet keeps in that directory, once nothing is mounted below it.
func removeKubeletRoot(ctx context.Context, e *engine.Env, dir string) error {
	if dir == "" {
		return nil
	}
	if _, err := e.World.Stat(ctx, dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	e.Say("unmounting all mounts below %q, and removing what the kubelet keeps there", dir)
	if err := e.Do(ctx, change.Unmount{Dir: dir, Flags: intentOf(e).UnmountFlags}); err != nil {
		return err // removing files below a mount would destroy the files of others
	}
	for _, name := range kubeletState {
		warnOnError(e, e.Do(ctx, change.Remove{Path: path.Join(dir, name)}), "remove it manually")
	}
	warnOnError(e, e.Do(ctx, change.Remove{Path: dir, OnlyEmpty: true}), "remove it manually")
	return nil
}
