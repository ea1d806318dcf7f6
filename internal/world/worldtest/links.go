package worldtest

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// LinkConfig is the input of the suite of links.
type LinkConfig struct {
	// Make creates a symbolic link, as no change does.
	Make func(to, at string)
	// SystemDir is a directory of the operating system. The suite tries to empty it.
	SystemDir string
	// Shown is the mode of a file or directory that was created with another one; nil for the same.
	Shown func(fs.FileMode) fs.FileMode
}

// Links checks changes of symbolic links and through them. root is an empty directory of the world.
func Links(t *testing.T, w world.World, root string, given LinkConfig) {
	f, link := newFileSuite(w, root), given.Make
	if given.Shown != nil {
		f.shown = given.Shown
	}
	mustDo(t, w, change.MakeDir{Path: f.at("links"), Mode: 0o755})
	real := f.writeText(t, "x", "real", "file")
	isLink := func(t *testing.T, name string) {
		t.Helper()
		if info, err := w.Lstat(newContext(t), name); err != nil ||
			info.Mode.Type() != fs.ModeSymlink || info.Path != name {
			t.Errorf("%s is %+v, %v; want a link", name, info, err)
		}
	}
	t.Run("stat", func(t *testing.T) {
		link(real, f.at("links", "a"))
		isLink(t, f.at("links", "a"))
		if info, err := w.Stat(newContext(t), f.at("links", "a")); err != nil ||
			!info.Mode.IsRegular() {
			t.Errorf("through the link: %+v, %v", info, err)
		}
		_, err := w.Lstat(newContext(t), f.at("links", "none"))
		wantNotExist(t, err)
	})
	t.Run("write", func(t *testing.T) {
		mustDo(t, w, change.WriteFile{Path: f.at("links", "a"), Data: []byte("through"),
			Mode: 0o600})
		isLink(t, f.at("links", "a"))
		f.wantContent(t, real, "through")
	})
	t.Run("dangling", func(t *testing.T) {
		link("../real/none", f.at("links", "b"))
		dangling := change.Remove{Path: f.at("links", "b")}
		wantDone(t, w, dangling, false)
		mustDo(t, w, change.WriteFile{Path: f.at("links", "b"), Data: []byte("new"), Mode: 0o600})
		isLink(t, f.at("links", "b"))
		f.wantContent(t, f.at("real", "none"), "new")
		mustDo(t, w, change.Remove{Path: f.at("real", "none")})
		mustDo(t, w, dangling)
		_, err := w.Lstat(newContext(t), f.at("links", "b"))
		wantNotExist(t, err)
	})
	t.Run("make", func(t *testing.T) {
		first := change.MakeLink{Path: f.at("made", "current"), To: f.writeText(t, "1", "made", "1")}
		second := change.MakeLink{Path: first.Path, To: f.writeText(t, "2", "made", "2")}
		wantDone(t, w, first, false)
		for _, c := range []change.MakeLink{first, second, first} {
			mustDo(t, w, c)
			wantDone(t, w, c, true)
			isLink(t, c.Path)
		}
		wantDone(t, w, second, false)
		f.wantContent(t, first.Path, "1")
		f.writeText(t, "file", "made", "file")
		mustDo(t, w, change.MakeLink{Path: f.at("made", "file"), To: second.To})
		isLink(t, f.at("made", "file"))
		f.wantContent(t, f.at("made", "file"), "2")
		if err := w.Do(newContext(t), change.MakeLink{Path: f.at("made"), To: second.To}); err == nil {
			t.Error("a directory was replaced by a link")
		}
	})
	t.Run("remove", func(t *testing.T) {
		mustDo(t, w, change.Remove{Path: f.at("links", "a"), OnlyEmpty: true})
		isLink(t, f.at("links", "a"))
		mustDo(t, w, change.Remove{Path: f.at("links", "a")})
		f.wantContent(t, real, "through")
	})
	t.Run("remove contents", func(t *testing.T) {
		link("../real", f.at("links", "c"))
		mustDo(t, w, change.Remove{Path: f.at("links", "c"), Contents: true})
		isLink(t, f.at("links", "c"))
		f.wantAbsent(t, real)
		f.wantMode(t, f.at("real"), 0o755|fs.ModeDir)
	})
	t.Run("to a system directory", func(t *testing.T) {
		link(given.SystemDir, f.at("links", "d"))
		err := w.Do(newContext(t), change.Remove{Path: f.at("links", "d"), Contents: true})
		if err == nil || !strings.Contains(err.Error(), "a directory of the operating system") {
			t.Errorf("emptying %s: got %v", given.SystemDir, err)
		}
		mustDo(t, w, change.Remove{Path: f.at("links", "d")})
	})
}

// LinkedDirectoryOwners checks a recursive change of the owner through a symbolic link, which
// needs root; see Links.
func LinkedDirectoryOwners(t *testing.T, w world.World, root string, link func(to, at string)) {
	f := newFileSuite(w, root)
	deep := f.writeText(t, "x", "elsewhere", "member", "file")
	link(path.Dir(path.Dir(deep)), f.at("data"))
	give := change.SetOwner{Path: f.at("data"), UID: 7, GID: 8, Name: "7:8", Recursive: true}
	wantDone(t, w, give, false)
	mustDo(t, w, give)
	f.wantOwner(t, deep, 7, 8, 0o640)
	f.wantOwner(t, f.at("elsewhere"), 7, 8, 0o755)

	link(deep, f.at("elsewhere", "link"))
	for _, at := range []string{f.at("data", "member", "file"), f.at("data", "placed"), f.at("elsewhere", "link")} {
		placed := change.WriteFile{Path: at, Data: []byte("placed"), Mode: 0o600, Secret: true,
			Placement: &change.Placement{UID: 9, GID: 9, DirMode: 0o700}}
		if err := w.Do(newContext(t), placed); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("writing %s: %v", at, err)
		}
	}
	f.wantContent(t, deep, "x")
}
