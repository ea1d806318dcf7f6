package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/state"
	"strings"
	"unicode/utf8"
)

// FileTarget is the target of every change of the file or folder at path.
func FileTarget(path string) string { return "file:" + path }

// WriteFile makes a file have these bytes and, when it is new, this mode. Missing
// directories above it are created with mode 0755. Readers see the old file or the new one, never
// a part, unless the file can only be written in place.
type WriteFile struct {
	Path    string
	Data    []byte
	Mode    fs.FileMode
	Secret  bool // Data must not be shown or kept in the clear
	Output  bool // the user named this file for output: its directory must exist
	Resumed bool // an earlier write may have been killed: what it left beside the file is removed
}

// pendingMark stands between the name of a file that is being written and a random text of
// base32, as rand.Text returns it.
const pendingMark = ".kubeadm-"

// PendingName is what a file is called while it is being written beside the old one. It begins
// with a dot, so that the kubelet does not take it for a manifest.
func PendingName(base, random string) string { return "." + base + pendingMark + random }

// IsPending reports whether name is one that PendingName gives to the file base.
func IsPending(base, name string) bool {
	const length, alphabet = 26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	random, ok := strings.CutPrefix(name, "."+base+pendingMark)
	return ok && len(random) == length && strings.Trim(random, alphabet) == ""
}

// Target is the file.
func (c WriteFile) Target() string { return FileTarget(c.Path) }

func (c WriteFile) String() string { return fmt.Sprintf("write file %q", c.Path) }

// Content is the file's text, unless it is secret or of a kind that says nothing to people (PEM).
func (c WriteFile) Content() string {
	if c.Secret || !utf8.Valid(c.Data) || bytes.HasPrefix(c.Data, []byte("-----BEGIN ")) {
		return ""
	}
	return string(c.Data)
}

// Done reports whether the file has these bytes. What is not a regular file, such as a FIFO,
// never has them. Output is always written.
func (c WriteFile) Done(ctx context.Context, r state.Reader) (bool, error) {
	if c.Output {
		return false, nil
	}
	info, err := r.Stat(ctx, c.Path)
	if err == nil && !info.Mode.IsRegular() && !info.Mode.IsDir() {
		return false, nil
	}
	old, err := r.ReadFile(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && bytes.Equal(old, c.Data), state.ExplainMisplaced(ctx, r, c.Path, err)
}

// Inverse writes the old bytes back, or removes a file that was not there. What is written to a
// FIFO or behind a dangling link cannot be taken back.
func (c WriteFile) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	info, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := r.Lstat(ctx, c.Path); err == nil {
			return nil, ErrOneWay
		}
		return Remove{Path: c.Path}, nil
	}
	if err == nil && !info.Mode.IsRegular() && !info.Mode.IsDir() {
		return nil, ErrOneWay
	}
	old, err := r.ReadFile(ctx, c.Path)
	if err != nil {
		return nil, err
	}
	return WriteFile{Path: c.Path, Data: old, Mode: info.Mode.Perm(), Secret: c.Secret}, err
}

// MakeDir makes a folder, and those above it, with this mode; one that exists is left as it is.
type MakeDir struct {
	Path string
	Mode fs.FileMode
}

// Target is the folder.
func (c MakeDir) Target() string { return FileTarget(c.Path) }

func (c MakeDir) String() string { return fmt.Sprintf("make directory %q", c.Path) }

// Done tells whether the folder exists.
func (c MakeDir) Done(ctx context.Context, r state.Reader) (bool, error) {
	info, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && info.Mode.IsDir() {
		return true, nil
	}
	return false, state.ExplainBlockedDir(ctx, r, c.Path, err)
}

// Inverse removes the folder if it is empty then.
func (c MakeDir) Inverse(context.Context, state.Reader) (Change, error) {
	return Remove{Path: c.Path, OnlyEmpty: true}, nil
}

// ErrOfSystem says that a directory belongs to the operating system, so it is left alone.
var ErrOfSystem = errors.New("a directory of the operating system")

// Remove makes a file be absent, or a directory be empty. It never removes a symbolic link's
// target, never enters a mount, and never empties a directory of the operating system
// (node.OfSystem), whatever link leads there.
type Remove struct {
	Path      string
	Contents  bool // remove what is in the directory, be it behind a link, and keep the directory
	OnlyEmpty bool // leave alone what is not an empty directory
}

// Target is the file or directory.
func (c Remove) Target() string { return FileTarget(c.Path) }

func (c Remove) String() string {
	if c.Contents {
		return fmt.Sprintf("remove the contents of %q", c.Path)
	}
	return fmt.Sprintf("remove %q", c.Path)
}

// Done reports whether nothing is left to remove.
func (c Remove) Done(ctx context.Context, r state.Reader) (bool, error) {
	look := r.Lstat
	if c.Contents {
		look = r.Stat
	}
	info, err := look(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || !c.Contents && !c.OnlyEmpty {
		return false, err
	}
	if c.OnlyEmpty && info.Mode.Type() == fs.ModeSymlink {
		return true, nil
	}
	inside, err := r.ReadDir(ctx, c.Path)
	return (len(inside) == 0) == c.Contents, err
}

// Inverse writes a single file back. A directory that held anything is gone for good, and so is
// a link.
func (c Remove) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	info, err := r.Lstat(ctx, c.Path)
	switch {
	case err != nil:
		return nil, errors.Join(err, ErrOneWay)
	case info.Mode.IsDir() && c.OnlyEmpty:
		return MakeDir{Path: c.Path, Mode: info.Mode.Perm()}, nil
	case !info.Mode.IsRegular():
		return nil, ErrOneWay
	}
	old, err := r.ReadFile(ctx, c.Path)
	return WriteFile{Path: c.Path, Data: old, Mode: info.Mode.Perm(), Secret: true}, err
}
