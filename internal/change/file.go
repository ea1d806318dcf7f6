package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"
)

// FileTarget is the target of every change of the file or folder at path.
func FileTarget(path string) string { return "file:" + path }

// WriteFile makes a file have these bytes and, when it is new, this mode. Missing
// folders above it are made with mode 0755. Readers see the old file or the new one, never a part.
type WriteFile struct {
	Path   string
	Data   []byte
	Mode   fs.FileMode
	Secret bool // Data must not be shown or kept in the clear
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

// Done tells whether the file has these bytes.
func (c WriteFile) Done(ctx context.Context, r Reader) (bool, error) {
	old, err := r.ReadFile(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && bytes.Equal(old, c.Data), err
}

// Inverse writes the old bytes back, or removes a file that was not there.
func (c WriteFile) Inverse(ctx context.Context, r Reader) (Change, error) {
	old, err := r.ReadFile(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Remove{Path: c.Path}, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := r.Stat(ctx, c.Path)
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
func (c MakeDir) Done(ctx context.Context, r Reader) (bool, error) {
	info, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !info.Mode.IsDir() {
		return false, fmt.Errorf("%s is in the way: it is not a directory", c.Path)
	}
	return err == nil, err
}

// Inverse removes the folder if it is empty then.
func (c MakeDir) Inverse(context.Context, Reader) (Change, error) {
	return Remove{Path: c.Path, OnlyEmpty: true}, nil
}

// Remove makes a file be absent, or a folder be empty.
type Remove struct {
	Path      string
	Contents  bool // remove what is in the folder and keep the folder
	OnlyEmpty bool // leave a folder alone that holds anything
}

// Target is the file or folder.
func (c Remove) Target() string { return FileTarget(c.Path) }

func (c Remove) String() string {
	if c.Contents {
		return fmt.Sprintf("remove the contents of %q", c.Path)
	}
	return fmt.Sprintf("remove %q", c.Path)
}

// Done tells whether nothing is left to remove.
func (c Remove) Done(ctx context.Context, r Reader) (bool, error) {
	_, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || (!c.Contents && !c.OnlyEmpty) {
		return false, err
	}
	inside, err := r.ReadDir(ctx, c.Path)
	return (len(inside) == 0) == c.Contents, err
}

// Inverse writes a single file back; a folder that held anything is gone for good.
func (c Remove) Inverse(ctx context.Context, r Reader) (Change, error) {
	info, err := r.Stat(ctx, c.Path)
	switch {
	case err != nil:
		return nil, errors.Join(err, ErrOneWay)
	case c.OnlyEmpty:
		return MakeDir{Path: c.Path, Mode: info.Mode.Perm()}, nil
	case info.Mode.IsDir():
		return nil, ErrOneWay
	}
	old, err := r.ReadFile(ctx, c.Path)
	return WriteFile{Path: c.Path, Data: old, Mode: info.Mode.Perm(), Secret: true}, err
}
