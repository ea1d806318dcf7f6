package memory

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
)

// File is one file or folder.
type File struct {
	Data    []byte
	Mode    fs.FileMode // with fs.ModeDir for a folder
	ModTime time.Time
	UID     int
	GID     int
}

func (f File) info(name string) change.FileInfo {
	return change.FileInfo{Path: name, Mode: f.Mode, ModTime: f.ModTime, UID: f.UID, GID: f.GID}
}

// ReadFile returns a file's bytes.
func (w *World) ReadFile(_ context.Context, name string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.Files[path.Clean(name)]
	if !ok {
		return nil, notExist("open", name)
	}
	if f.Mode.IsDir() {
		return nil, fmt.Errorf("read %s: is a directory", name)
	}
	return slices.Clone(f.Data), nil
}

// Stat tells what is known of a file or folder.
func (w *World) Stat(_ context.Context, name string) (change.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.Files[path.Clean(name)]
	if !ok {
		return change.FileInfo{}, notExist("stat", name)
	}
	return f.info(path.Clean(name)), nil
}

// ReadDir lists what is directly in a folder, in order of names.
func (w *World) ReadDir(_ context.Context, name string) ([]change.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name = path.Clean(name)
	f, ok := w.Files[name]
	if !ok {
		return nil, notExist("open", name)
	}
	if !f.Mode.IsDir() {
		return nil, fmt.Errorf("open %s: not a directory", name)
	}
	var inside []change.FileInfo
	for _, p := range slices.Sorted(maps.Keys(w.Files)) {
		if p != name && path.Dir(p) == name {
			inside = append(inside, w.Files[p].info(p))
		}
	}
	return inside, nil
}

// Put makes a file or folder be there as it is given, with the folders above it.
func (w *World) Put(name string, f File) error {
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
	name := path.Clean(c.Path)
	if err := w.makeDirs(path.Dir(name), 0o755); err != nil {
		return err
	}
	f := File{Mode: c.Mode}
	if old, ok := w.Files[name]; ok {
		if old.Mode.IsDir() {
			return fmt.Errorf("write %s: is a directory", name)
		}
		f = old
	}
	f.Data, f.ModTime = slices.Clone(c.Data), w.Now()
	w.Files[name] = f
	return nil
}

func (w *World) makeDirs(name string, mode fs.FileMode) error {
	if f, ok := w.Files[name]; ok && !f.Mode.IsDir() {
		return fmt.Errorf("%s is in the way: it is not a directory", name)
	} else if ok || name == "/" || name == "." {
		return nil
	}
	if err := w.makeDirs(path.Dir(name), mode); err != nil {
		return err
	}
	w.Files[name] = File{Mode: mode | fs.ModeDir, ModTime: w.Now()}
	return nil
}

func (w *World) remove(c change.Remove) {
	name := path.Clean(c.Path)
	inside := slices.Collect(func(yield func(string) bool) {
		for p := range w.Files {
			if strings.HasPrefix(p, name+"/") && !yield(p) {
				return
			}
		}
	})
	if c.OnlyEmpty && len(inside) > 0 {
		return
	}
	for _, p := range inside {
		delete(w.Files, p)
	}
	if !c.Contents {
		delete(w.Files, name)
	}
}

func notExist(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}
