package manifestinput

import (
	"context"
	"fmt"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// ReadPatches reads the user's directory of patch files, and its subdirectories, in order of
// names. If dir is empty, there are no patches.
func ReadPatches(ctx context.Context, r state.Reader,
	dir string) (manifest.Patches, []string, error) {
	if dir == "" {
		return manifest.Patches{}, nil, nil
	}
	files, err := readPatchFiles(ctx, r, dir)
	var p manifest.Patches
	var notes []string
	if err == nil {
		p, notes, err = manifest.ParsePatches(files)
	} else {
		err = fmt.Errorf("reading patches from %s: %w", untrusted.Line(dir), err)
	}
	if err != nil {
		return manifest.Patches{}, nil,
			problem.New(err, "fix the patches, or set --patches to another directory")
	}
	return p, notes, nil
}

func readPatchFiles(ctx context.Context, r state.Reader, dir string) ([]manifest.PatchFile, error) {
	inside, err := r.ReadDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	var all []manifest.PatchFile
	for _, f := range inside {
		if f.Mode.IsDir() {
			below, err := readPatchFiles(ctx, r, f.Path)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		}
		file := manifest.PatchFile{Name: f.Path}
		// others may have any size and type, such as ..data of a mounted ConfigMap
		if manifest.IsPatchFile(f.Path) {
			if file.Data, err = r.ReadFile(ctx, f.Path); err != nil {
				return nil, err
			}
		}
		all = append(all, file)
	}
	return all, nil
}
