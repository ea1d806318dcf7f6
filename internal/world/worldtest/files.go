package worldtest

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Files checks reading and changing files; root is a folder of the world with nothing in it.
func Files(t *testing.T, w world.World, root string) {
	f := files{w, root}
	t.Run("nothing there", f.nothing)
	t.Run("write", f.write)
	t.Run("overwrite", f.overwrite)
	t.Run("write in one step", f.oneStep)
	t.Run("list", f.list)
	t.Run("make directories", f.makeDirs)
	t.Run("in the way", f.inTheWay)
	t.Run("remove", f.remove)
	t.Run("remove contents", f.removeContents)
	t.Run("remove if empty", f.removeEmpty)
	t.Run("put back", f.putBack)
}

type files struct {
	w    world.World
	root string
}

func (f files) at(names ...string) string { return path.Join(append([]string{f.root}, names...)...) }

func (f files) write1(t *testing.T, text string, names ...string) string {
	t.Helper()
	do(t, f.w, change.WriteFile{Path: f.at(names...), Data: []byte(text), Mode: 0o640})
	return f.at(names...)
}

func (f files) reads(t *testing.T, name, want string) {
	t.Helper()
	got, err := f.w.ReadFile(limited(t), name)
	if err != nil || string(got) != want {
		t.Errorf("reading %s: got %q and %v, want %q", name, got, err, want)
	}
}

func (f files) hasMode(t *testing.T, name string, want fs.FileMode) {
	t.Helper()
	info, err := f.w.Stat(limited(t), name)
	if err != nil || info.Mode != want || info.Path != name {
		t.Errorf("got %s with %v and %v, want %s with %v", info.Path, info.Mode, err, name, want)
	}
}

func (f files) gone(t *testing.T, name string) {
	t.Helper()
	_, err := f.w.Stat(limited(t), name)
	isAbsent(t, err)
}

func (f files) nothing(t *testing.T) {
	_, err := f.w.ReadFile(limited(t), f.at("nothing"))
	isAbsent(t, err)
	_, err = f.w.Stat(limited(t), f.at("nothing"))
	isAbsent(t, err)
	_, err = f.w.ReadDir(limited(t), f.at("nothing"))
	isAbsent(t, err)
	isDone(t, f.w, change.WriteFile{Path: f.at("nothing")}, false)
	isDone(t, f.w, change.MakeDir{Path: f.at("nothing")}, false)
}

func (f files) write(t *testing.T) {
	before := f.w.Now()
	data := []byte("one")
	name := f.at("write", "deep", "file")
	do(t, f.w, change.WriteFile{Path: name, Data: data, Mode: 0o600})
	copy(data, "two")
	f.reads(t, name, "one")
	f.hasMode(t, name, 0o600)
	f.hasMode(t, f.at("write"), 0o755|fs.ModeDir)
	f.hasMode(t, f.at("write", "deep"), 0o755|fs.ModeDir)
	info, err := f.w.Stat(limited(t), name)
	// File systems keep times by a coarse clock that lags behind by up to a tick.
	if err != nil || info.ModTime.Before(before.Add(-tick)) || info.ModTime.After(f.w.Now()) {
		t.Errorf("written at %v by the file, between %v and %v by the clock: %v", info.ModTime, before, f.w.Now(), err)
	}
	isDone(t, f.w, change.WriteFile{Path: name, Data: []byte("another"), Mode: 0o600}, false)
	got, _ := f.w.ReadFile(limited(t), name)
	copy(got, "XXX")
	f.reads(t, name, "one")
	if _, err := f.w.ReadDir(limited(t), name); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading a file as a folder: %v", err)
	}
}

func (f files) overwrite(t *testing.T) {
	name := f.write1(t, "a long text", "over")
	do(t, f.w, change.WriteFile{Path: name, Data: []byte("short"), Mode: 0o777})
	f.reads(t, name, "short")
	f.hasMode(t, name, 0o640)
	do(t, f.w, change.WriteFile{Path: name, Mode: 0o600})
	f.reads(t, name, "")
}

// oneStep looks at a file all the time while it is being written.
func (f files) oneStep(t *testing.T) {
	old, new := bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<15)
	name := f.write1(t, string(old), "one", "step")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			got, err := f.w.ReadFile(t.Context(), name)
			if err != nil || !bytes.Equal(got, old) && !bytes.Equal(got, new) {
				t.Errorf("read %d bytes and %v, want the old file or the new one", len(got), err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range 20 {
		do(t, f.w, change.WriteFile{Path: name, Data: [][]byte{new, old}[i%2], Mode: 0o600})
	}
	close(stop)
	wg.Wait()
	inside, err := f.w.ReadDir(limited(t), f.at("one"))
	if err != nil || len(inside) != 1 {
		t.Errorf("beside the file: %v, %v; want nothing left over", inside, err)
	}
}

func (f files) list(t *testing.T) {
	for _, name := range []string{"c", "a", "b/inside"} {
		f.write1(t, "x", "list", name)
	}
	inside, err := f.w.ReadDir(limited(t), f.at("list"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range inside {
		got = append(got, i.Mode.Type().String()+" "+i.Path)
	}
	want := []string{"---------- " + f.at("list/a"), "d--------- " + f.at("list/b"), "---------- " + f.at("list/c")}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (f files) makeDirs(t *testing.T) {
	do(t, f.w, change.MakeDir{Path: f.at("make", "two", "three"), Mode: 0o700})
	for _, d := range []string{"make", "make/two", "make/two/three"} {
		f.hasMode(t, f.at(d), 0o700|fs.ModeDir)
	}
	name := f.write1(t, "x", "make", "two", "file")
	do(t, f.w, change.MakeDir{Path: f.at("make", "two"), Mode: 0o755})
	f.hasMode(t, f.at("make", "two"), 0o700|fs.ModeDir)
	f.reads(t, name, "x")
}

func (f files) inTheWay(t *testing.T) {
	name := f.write1(t, "x", "way", "file")
	refuses(t, f.w, change.MakeDir{Path: name, Mode: 0o755})
	refuses(t, f.w, change.MakeDir{Path: path.Join(name, "below"), Mode: 0o755})
	refuses(t, f.w, change.WriteFile{Path: path.Join(name, "below"), Mode: 0o644})
	refuses(t, f.w, change.WriteFile{Path: f.at("way"), Mode: 0o644})
	f.reads(t, name, "x")
	if _, err := f.w.ReadFile(limited(t), f.at("way")); err == nil {
		t.Error("reading a directory as a file: want an error")
	}
}

func (f files) remove(t *testing.T) {
	name, kept := f.write1(t, "x", "remove", "file"), f.write1(t, "x", "remove", "file2")
	deep := f.write1(t, "x", "remove", "dir", "sub", "file")
	do(t, f.w, change.Remove{Path: name})
	f.gone(t, name)
	do(t, f.w, change.Remove{Path: f.at("remove", "dir")})
	f.gone(t, deep)
	f.gone(t, f.at("remove", "dir"))
	do(t, f.w, change.Remove{Path: f.at("remove", "never-there")})
	f.reads(t, kept, "x")
}

func (f files) removeContents(t *testing.T) {
	do(t, f.w, change.MakeDir{Path: f.at("contents"), Mode: 0o700})
	a, b := f.write1(t, "x", "contents", "a"), f.write1(t, "x", "contents", "sub", "b")
	beside := f.write1(t, "x", "contents-beside")
	empty := change.Remove{Path: f.at("contents"), Contents: true}
	isDone(t, f.w, empty, false)
	do(t, f.w, empty)
	f.gone(t, a)
	f.gone(t, b)
	f.gone(t, f.at("contents", "sub"))
	f.hasMode(t, f.at("contents"), 0o700|fs.ModeDir)
	f.reads(t, beside, "x")
	do(t, f.w, change.Remove{Path: f.at("never-there"), Contents: true})
	f.gone(t, f.at("never-there"))
}

func (f files) removeEmpty(t *testing.T) {
	name := f.write1(t, "x", "empty", "file")
	dir := change.Remove{Path: f.at("empty"), OnlyEmpty: true}
	do(t, f.w, dir)
	f.reads(t, name, "x")
	do(t, f.w, change.Remove{Path: name})
	isDone(t, f.w, dir, false)
	do(t, f.w, dir)
	f.gone(t, f.at("empty"))
	do(t, f.w, dir)
}

func (f files) putBack(t *testing.T) {
	name := f.write1(t, "old", "back", "file")
	undone(t, f.w, change.WriteFile{Path: name, Data: []byte("new"), Mode: 0o600})
	f.reads(t, name, "old")
	undone(t, f.w, change.Remove{Path: name})
	f.reads(t, name, "old")
	f.hasMode(t, name, 0o640)
	undone(t, f.w, change.WriteFile{Path: f.at("back", "fresh"), Data: []byte("new"), Mode: 0o600})
	f.gone(t, f.at("back", "fresh"))
	undone(t, f.w, change.MakeDir{Path: f.at("back", "dir"), Mode: 0o700})
	f.gone(t, f.at("back", "dir"))
}
