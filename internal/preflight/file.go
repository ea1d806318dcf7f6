package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// leftoverHint says what to do about files that may be of another cluster.
const leftoverHint = `if it is left over from another cluster, clean up with "kubeadm reset"; otherwise move it out of the way`

// newFileAvailableCheck checks that there is no such file, unless an unfinished run of the same
// command made it or one of the targets that cause it.
func newFileAvailableCheck(file string, causes ...string) Check {
	causes = append(causes, change.FileTarget(file))
	// Without the drive, so that --ignore-preflight-errors has the same name on each platform.
	name := file[max(0, strings.Index(file, "/")):]
	return Check{Name: "FileAvailable-" + strings.ReplaceAll(name, "/", "-"),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			switch _, err := r.Stat(ctx, file); {
			case err == nil && !slices.ContainsFunc(causes, r.WasCreated):
				rep.Fail(leftoverHint, "%s already exists", file)
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				rep.FailWith(state.ExplainMisplaced(ctx, r, file, err))
			}
		}}
}

// newDirAccessCheck checks on Windows that no other user can replace the directories in which kubeadm
// and the kubelet have their files: every user can create directories below the root of a drive.
func newDirAccessCheck(l *node.Local) Check {
	return Check{Name: "DirAccess", Why: "the kubelet does what its files say, with the rights of Windows itself",
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			var dirs []string
			for _, last := range []string{l.Paths.Certificates, l.Paths.Kubelet} {
				for dir := last; path.Dir(dir) != dir && path.Dir(dir) != "."; dir = path.Dir(dir) {
					dirs = append(dirs, dir)
				}
			}
			slices.Sort(dirs)
			for _, dir := range slices.Compact(dirs) {
				const private = "icacls %s /inheritance:r /grant:r *S-1-5-32-544:(OI)(CI)F *S-1-5-18:(OI)(CI)F *S-1-5-32-545:(CI)RX"
				info, err := r.Stat(ctx, dir)
				switch {
				case errors.Is(err, fs.ErrNotExist): // it will be created
				case err != nil:
					rep.FailWith(state.ExplainMisplaced(ctx, r, dir, err))
				case info.UID != 0:
					rep.Fail(untrusted.CommandHint("remove the directory, or make Administrators its owner", "takeown /A /F %s", dir),
						"%s belongs to another user, who can replace what is in it", dir)
				case info.Mode&0o022 != 0:
					rep.Warn(untrusted.CommandHint("let only Administrators change it", private, dir),
						"other users can change %s, or create files in it", dir)
				}
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
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			searched = value
		}
	}
	return fmt.Errorf("program %q is not in PATH (%s)", program, searched)
}
