package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/problem"
	"path"
)

// ReadOptional reads a file; where there is none it returns nil.
func ReadOptional(ctx context.Context, r Reader, name string) ([]byte, error) {
	data, err := r.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, ExplainMisplaced(ctx, r, name, err)
}

// ReadRequired reads a file that must be there.
func ReadRequired(ctx context.Context, r Reader, name string) ([]byte, error) {
	data, err := r.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	return data, ExplainMisplaced(ctx, r, name, err)
}

// Exists reports whether there is a file or directory.
func Exists(ctx context.Context, r Reader, name string) (bool, error) {
	_, err := r.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, ExplainMisplaced(ctx, r, name, err)
}

// ExplainMisplaced returns the error err of reading or looking for the file name in plain words, if a directory is in its place, or
// a file in the place of a directory above it. Other errors stay as they are.
func ExplainMisplaced(ctx context.Context, r Reader, name string, err error) error {
	if err == nil {
		return nil
	}
	if found, unseen := r.Stat(ctx, name); unseen == nil && found.Mode.IsDir() {
		return problem.New("", fmt.Errorf("%s is a directory, and a file is expected there", name), "move "+name+" away")
	}
	return ExplainBlockedDir(ctx, r, path.Dir(name), err)
}

// ExplainBlockedDir names the file that is in the place of the directory or of one above it; else it returns err.
func ExplainBlockedDir(ctx context.Context, r Reader, dir string, err error) error {
	for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if found, unseen := r.Stat(ctx, dir); unseen == nil && !found.Mode.IsDir() {
			return problem.New("", fmt.Errorf("%s is a file, and a directory is expected there", dir), "move "+dir+" away")
		}
	}
	return err
}
