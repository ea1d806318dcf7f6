package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// FileTarget is the target of every change of the file or directory at path.
func FileTarget(path string) string { return "file:" + path }

// WriteFile writes a file with these bytes. A new file gets Mode; missing directories above it
// are created with mode 0755. The write is atomic: readers see the old file or the new one, unless
// the file can only be written in place.
type WriteFile struct {
	Path            string
	Data            []byte
	Mode            fs.FileMode
	Secret          bool // Data must not be shown or stored unencrypted
	Output          bool // the user named this file for output: its directory must exist
	RemoveTemporary bool // an earlier write may have been killed: its temporary files are removed
	// Placement is for a file of another machine; nil: owner and mode of an existing file stay, and symbolic
	// links are followed.
	Placement *Placement
}

// Placement says whose a file is. Its owner is set together with Mode, also where the file exists, before it has
// its name. A symbolic link anywhere on the path is an error.
type Placement struct {
	UID, GID int
	DirMode  fs.FileMode // of missing directories, which belong to root
}

// NewLinkError is the error of a file with a Placement whose path leads through a symbolic link.
func NewLinkError(file, link string) error {
	return problem.New(fmt.Errorf("%s is not written: %s is a symbolic link", file, link),
		"write the file yourself, or replace the link")
}

// temporaryInfix is in the name of a temporary file between the name of the final file and a
// random text as rand.Text returns it.
const temporaryInfix = ".kubeadm-"

// TemporaryName returns the name of the temporary file that is renamed to base when it is complete.
// It begins with a dot, so that the kubelet does not read it as a manifest.
func TemporaryName(base, random string) string { return "." + base + temporaryInfix + random }

// IsTemporaryName reports whether name is the name of a temporary file for base.
func IsTemporaryName(base, name string) bool { return base != "" && NameOfTemporary(name) == base }

// NameOfTemporary returns the name of the file for which name is the name of a temporary one, or
// nothing if it is none.
func NameOfTemporary(name string) string {
	const length, alphabet = 26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // base32, as in rand.Text
	i := strings.LastIndex(name, temporaryInfix)
	if i < 1 || name[0] != '.' {
		return ""
	}
	random := name[i+len(temporaryInfix):]
	if len(random) != length || strings.Trim(random, alphabet) != "" {
		return ""
	}
	return name[1:i]
}

// Target names the file.
func (c WriteFile) Target() string { return FileTarget(c.Path) }

func (c WriteFile) String() string { return fmt.Sprintf("write file %q", c.Path) }

// CheckSecret returns an error if the file contains a private key but is not written as a secret.
// Every world refuses to write such a file.
func (c WriteFile) CheckSecret() error {
	if c.Secret || !pki.ContainsPrivateKey(c.Data) {
		return nil
	}
	return fmt.Errorf("writing %s: it would contain a private key that other users can read", c.Path)
}

// Content is the file's text, unless it is secret or PEM.
func (c WriteFile) Content() string {
	if c.Secret || !utf8.Valid(c.Data) || bytes.HasPrefix(c.Data, []byte("-----BEGIN ")) {
		return ""
	}
	return string(c.Data)
}

// Done reports whether the file has these bytes. It is false for anything but a regular file,
// such as a FIFO, and for output, which is always written.
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

// Inverse writes the old bytes, or removes the file if it did not exist. For a FIFO and for a
// dangling symbolic link it is ErrIrreversible.
func (c WriteFile) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	info, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := r.Lstat(ctx, c.Path); err == nil {
			return nil, ErrIrreversible
		}
		return Remove{Path: c.Path}, nil
	}
	if err == nil && !info.Mode.IsRegular() && !info.Mode.IsDir() {
		return nil, ErrIrreversible
	}
	old, err := r.ReadFile(ctx, c.Path)
	if err != nil {
		return nil, err
	}
	return WriteFile{Path: c.Path, Data: old, Mode: info.Mode.Perm(), Secret: c.Secret}, err
}

// MakeDir creates a directory, and those above it, with this mode. An existing one is not changed.
type MakeDir struct {
	Path string
	Mode fs.FileMode
}

// Target names the directory.
func (c MakeDir) Target() string { return FileTarget(c.Path) }

func (c MakeDir) String() string { return fmt.Sprintf("create directory %q", c.Path) }

// Done reports whether the directory exists.
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

// Inverse removes the directory if it is empty at that time.
func (c MakeDir) Inverse(context.Context, state.Reader) (Change, error) {
	return Remove{Path: c.Path, OnlyEmpty: true}, nil
}

// ErrSystemDirectory is the error of a change that would remove the contents of a system directory.
var ErrSystemDirectory = errors.New("a directory of the operating system")

// Remove removes a file or a directory, or the contents of a directory. It never removes a
// symbolic link's target, never enters a mount, and never empties a directory of the operating
// system (node.IsSystemDir), even through a symbolic link.
type Remove struct {
	Path      string
	Contents  bool // keep the directory and remove its contents; the path may be a symbolic link
	OnlyEmpty bool // remove nothing but an empty directory
}

// Target names the file or directory.
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

// Inverse writes a single file again, or creates an empty directory. For all else it is
// ErrIrreversible.
func (c Remove) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	info, err := r.Lstat(ctx, c.Path)
	switch {
	case err != nil:
		return nil, errors.Join(err, ErrIrreversible)
	case info.Mode.IsDir() && c.OnlyEmpty:
		return MakeDir{Path: c.Path, Mode: info.Mode.Perm()}, nil
	case !info.Mode.IsRegular():
		return nil, ErrIrreversible
	}
	old, err := r.ReadFile(ctx, c.Path)
	return WriteFile{Path: c.Path, Data: old, Mode: info.Mode.Perm(), Secret: true}, err
}
