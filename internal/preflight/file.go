package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// leftoverHint says what to do about files that may be of another cluster.
const leftoverHint = `if it is left over from another cluster, clean up with "kubeadm reset"; otherwise move it out of the way`

// newFileAvailableCheck checks that there is no file at path, unless an unfinished run of the same
// command made it or one of the targets that cause it.
func newFileAvailableCheck(path string, causes ...string) Check {
	causes = append(causes, change.FileTarget(path))
	// Without the drive, so that --ignore-preflight-errors has the same name on each platform.
	name := path[max(0, strings.Index(path, "/")):]
	return Check{Name: "FileAvailable-" + strings.ReplaceAll(name, "/", "-"),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			switch _, err := r.Stat(ctx, path); {
			case err == nil && !slices.ContainsFunc(causes, r.WasCreated):
				rep.Fail(leftoverHint, "%s already exists", path)
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				rep.FailWith(state.ExplainMisplaced(ctx, r, path, err))
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
