package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"kubeadm/internal/problem"
)

// ReadOptional reads a file. It returns nil without an error if the file does not exist.
func ReadOptional(ctx context.Context, r Reader, name string) ([]byte, error) {
	data, err := r.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, ExplainMisplaced(ctx, r, name, err)
}

// ReadRequired reads a file that must exist.
func ReadRequired(ctx context.Context, r Reader, name string) ([]byte, error) {
	data, err := r.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	return data, ExplainMisplaced(ctx, r, name, err)
}

// Exists reports whether a file or directory of that name exists.
func Exists(ctx context.Context, r Reader, name string) (bool, error) {
	_, err := r.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, ExplainMisplaced(ctx, r, name, err)
}

// HasEntry reports whether a directory has an entry of that name, be it a link that leads nowhere.
func HasEntry(ctx context.Context, r Reader, name string) (bool, error) {
	_, err := r.Lstat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ExplainMisplaced returns a clearer error than err, which came from reading the file name, if
// that path is a directory or if a directory above it is a file. Otherwise it returns err.
func ExplainMisplaced(ctx context.Context, r Reader, name string, err error) error {
	if err == nil {
		return nil
	}
	if info, statErr := r.Stat(ctx, name); statErr == nil && info.Mode.IsDir() {
		return problem.New(fmt.Errorf("%s is a directory, but a file is expected there", name),
			"move "+name+" away")
	}
	return ExplainBlockedDir(ctx, r, path.Dir(name), err)
}

// ExplainBlockedDir returns a clearer error than err if the directory, or one above it, is a file.
// Otherwise it returns err.
func ExplainBlockedDir(ctx context.Context, r Reader, dir string, err error) error {
	for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if info, statErr := r.Stat(ctx, dir); statErr == nil && !info.Mode.IsDir() {
			return problem.New(fmt.Errorf("%s is a file, but a directory is expected there", dir),
				"move "+dir+" away")
		}
	}
	return err
}

// CheckPrivate returns an error if anyone but root and the given user owns the file or directory, may
// change it, or may read the file.
func CheckPrivate(info FileInfo, user int) error {
	fault := ""
	switch mode := info.Mode.Perm(); {
	case !info.Mode.IsDir() && !info.Mode.IsRegular():
		fault = "is not a regular file"
	case info.UID != 0 && info.UID != user:
		fault = fmt.Sprintf("belongs to another user (uid %d)", info.UID)
	case mode&0o022 != 0:
		fault = fmt.Sprintf("can be changed by other users (mode %#o)", mode)
	case !info.Mode.IsDir() && mode&0o044 != 0:
		fault = fmt.Sprintf("can be read by other users (mode %#o)", mode)
	default:
		return nil
	}
	return fmt.Errorf("%s %s", info.Path, fault)
}
