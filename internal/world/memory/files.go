package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// File is one file, directory or symbolic link.
type File struct {
	Data    []byte      // of a symbolic link: its target
	Mode    fs.FileMode // with fs.ModeDir for a directory, fs.ModeSymlink for a link
	ModTime time.Time
	UID     int
	GID     int
}

func (f File) info(name string) state.FileInfo {
	return state.FileInfo{Path: name, Mode: f.Mode, ModTime: f.ModTime,
		Size: int64(len(f.Data)), UID: f.UID, GID: f.GID}
}

// resolve follows symbolic links; the last name only with last.
func (w *World) resolve(name string, last bool) string {
	name = path.Clean(name)
	for range 40 { // the limit of Linux
		end := 0 // of the path of the first link
		for i := 1; i <= len(name) && end == 0; i++ {
			whole := i == len(name)
			if (whole && last || !whole && name[i] == '/') &&
				w.Files[name[:i]].Mode.Type() == fs.ModeSymlink {
				end = i
			}
		}
		if end == 0 {
			break
		}
		to := string(w.Files[name[:end]].Data)
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(name[:end]), to)
		}
		name = path.Join(to, name[end:])
	}
	return name
}

// ReadFile returns the content of a file.
func (w *World) ReadFile(_ context.Context, name string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.Files[w.resolve(name, true)]
	if !ok {
		return nil, w.notFoundError("open", name)
	}
	if f.Mode.IsDir() {
		return nil, fmt.Errorf("read %s: is a directory", name)
	}
	return slices.Clone(f.Data), nil
}

// OpenFile opens a regular file.
func (w *World) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	info, err := w.Stat(ctx, name)
	if err == nil && !info.Mode.IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	data, err := w.ReadFile(ctx, name)
	return io.NopCloser(bytes.NewReader(data)), err
}

// ReadPrivate returns the content of a file that only root, who is the user here, can read or change.
func (w *World) ReadPrivate(ctx context.Context, name string) ([]byte, error) {
	for _, checked := range []string{path.Dir(name), name} {
		info, err := w.stat(checked, checked != name)
		if err == nil {
			err = state.CheckPrivate(info, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.ReadFile(ctx, name)
}

// Stat describes a file or directory. It follows symbolic links.
func (w *World) Stat(_ context.Context, name string) (state.FileInfo, error) {
	return w.stat(name, true)
}

// Lstat is Stat without following a symbolic link at the end of the path.
func (w *World) Lstat(_ context.Context, name string) (state.FileInfo, error) {
	return w.stat(name, false)
}

func (w *World) stat(name string, follow bool) (state.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.Files[w.resolve(name, follow)]
	if !ok {
		return state.FileInfo{}, w.notFoundError("stat", name)
	}
	return f.info(path.Clean(name)), nil
}

// ReadDir lists a directory in order of names.
func (w *World) ReadDir(_ context.Context, name string) ([]state.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	real := w.resolve(name, true)
	f, ok := w.Files[real]
	if !ok {
		return nil, w.notFoundError("open", name)
	}
	if !f.Mode.IsDir() {
		return nil, fmt.Errorf("open %s: not a directory", name)
	}
	var files []state.FileInfo
	for _, p := range slices.Sorted(maps.Keys(w.Files)) {
		if p != real && path.Dir(p) == real {
			files = append(files, w.Files[p].info(path.Join(name, path.Base(p))))
		}
	}
	return files, nil
}

// PutFile creates a file or directory, and the directories above it.
func (w *World) PutFile(name string, f File) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	name = path.Clean(name)
	err := w.makeDirs(path.Dir(name), 0o755)
	if err == nil {
		w.Files[name] = f
	}
	return err
}

func (w *World) writeFile(c change.WriteFile) error {
	if err := c.CheckSecret(); err != nil {
		return err
	}
	name, dirMode := w.resolve(c.Path, true), fs.FileMode(0o755)
	if c.Placement != nil {
		if dirMode = c.Placement.DirMode; name != path.Clean(c.Path) {
			return change.NewLinkError(c.Path, w.firstLink(c.Path))
		}
	}
	dir := path.Dir(name)
	if _, ok := w.Files[dir]; c.Output && !ok && dir != "/" && dir != "." {
		if err := w.notFoundError("open", dir); errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := w.makeDirs(dir, dirMode); err != nil {
		return err
	}
	f := File{Mode: c.Mode}
	if old, ok := w.Files[name]; ok {
		if old.Mode.IsDir() {
			return fmt.Errorf("write %s: is a directory", name)
		}
		f = old
	}
	if p := c.Placement; p != nil {
		f.Mode, f.UID, f.GID = c.Mode.Perm(), p.UID, p.GID
	}
	f.Data, f.ModTime = slices.Clone(c.Data), w.Now()
	w.Files[name] = f
	return nil
}

// firstLink is the first symbolic link of a path.
func (w *World) firstLink(name string) string {
	link := ""
	for name = path.Clean(name); name != "/" && name != "."; name = path.Dir(name) {
		if w.Files[name].Mode.Type() == fs.ModeSymlink {
			link = name
		}
	}
	return link
}

func (w *World) makeDirs(name string, mode fs.FileMode) error {
	if f, ok := w.Files[name]; ok && !f.Mode.IsDir() {
		return fmt.Errorf("%s exists, but it is not a directory", name)
	} else if ok || name == "/" || name == "." {
		return nil
	}
	if err := w.makeDirs(path.Dir(name), mode); err != nil {
		return err
	}
	w.Files[name] = File{Mode: mode | fs.ModeDir, ModTime: w.Now()}
	return nil
}

func (w *World) makeLink(c change.MakeLink) error {
	name := w.resolve(c.Path, false)
	if f, ok := w.Files[name]; ok && f.Mode.Type() != fs.ModeSymlink && !f.Mode.IsRegular() {
		return fmt.Errorf("%s exists, but it is neither a link nor a regular file", name)
	}
	if err := w.makeDirs(path.Dir(name), 0o755); err != nil {
		return err
	}
	w.Files[name] = File{Data: []byte(c.To), Mode: fs.ModeSymlink | 0o777, ModTime: w.Now()}
	return nil
}

func (w *World) remove(c change.Remove) error {
	name := w.resolve(c.Path, c.Contents)
	if !c.OnlyEmpty && node.IsSystemDir(name) {
		return fmt.Errorf("%s points to %s, %w", c.Path, name, change.ErrSystemDirectory)
	}
	inside := slices.Collect(func(yield func(string) bool) {
		for p := range w.Files {
			if strings.HasPrefix(p, name+"/") && !yield(p) {
				return
			}
		}
	})
	if c.OnlyEmpty && (len(inside) > 0 || w.Files[name].Mode.Type() == fs.ModeSymlink) {
		return nil
	}
	for _, p := range inside {
		delete(w.Files, p)
	}
	if !c.Contents {
		delete(w.Files, name)
	}
	return nil
}

func (w *World) rename(c change.Rename) error {
	from, to := w.resolve(c.From, false), w.resolve(c.To, false)
	if _, ok := w.Files[to]; ok {
		return fmt.Errorf("rename %s to %s: file exists", c.From, c.To)
	}
	moved, ok := w.Files[from]
	if !ok {
		return w.notFoundError("rename", c.From)
	}
	if parent, ok := w.Files[path.Dir(to)]; !ok || !parent.Mode.IsDir() {
		return w.notFoundError("rename", c.To)
	}
	inside := map[string]File{to: moved}
	for name, f := range w.Files {
		if isBelow(name, from) {
			inside[to+strings.TrimPrefix(name, from)] = f
		}
	}
	maps.DeleteFunc(w.Files, func(name string, _ File) bool {
		return name == from || isBelow(name, from)
	})
	maps.Copy(w.Files, inside)
	return nil
}

// notFoundError returns fs.ErrNotExist, or "not a directory" for a path below a file.
func (w *World) notFoundError(op, name string) error {
	for dir := path.Dir(path.Clean(name)); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if f, ok := w.Files[dir]; ok {
			if !f.Mode.IsDir() {
				return fmt.Errorf("%s %s: not a directory", op, name)
			}
			break
		}
	}
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}
