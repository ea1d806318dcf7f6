package change

import (
	"context"
	"fmt"
	"path"

	"kubeadm/internal/problem"
)

// Misplaced returns the error err of reading or looking for the file name in plain words, if a directory is in its place, or
// a file in the place of a directory above it. Other errors stay as they are.
func Misplaced(ctx context.Context, r Reader, name string, err error) error {
	if err == nil {
		return nil
	}
	if found, unseen := r.Stat(ctx, name); unseen == nil && found.Mode.IsDir() {
		return problem.New("", fmt.Errorf("%s is a directory, and a file is expected there", name), "move "+name+" away")
	}
	return noDirectory(ctx, r, path.Dir(name), err)
}

// noDirectory names the file that is in the place of the directory or of one above it; else it returns err.
func noDirectory(ctx context.Context, r Reader, dir string, err error) error {
	for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if found, unseen := r.Stat(ctx, dir); unseen == nil && !found.Mode.IsDir() {
			return problem.New("", fmt.Errorf("%s is a file, and a directory is expected there", dir), "move "+dir+" away")
		}
	}
	return err
}
