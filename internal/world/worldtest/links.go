package worldtest

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Links checks what is done to symbolic links and through them. root is a directory of the world
// with nothing in it; link makes a link there, which no change does.
func Links(t *testing.T, w world.World, root string, link func(to, at string)) {
	f := files{w, root}
	do(t, w, change.MakeDir{Path: f.at("links"), Mode: 0o755})
	real := f.write1(t, "x", "real", "file")
	isLink := func(t *testing.T, name string) {
		t.Helper()
		if info, err := w.Lstat(limited(t), name); err != nil || info.Mode.Type() != fs.ModeSymlink || info.Path != name {
			t.Errorf("%s is %+v, %v; want a link", name, info, err)
		}
	}
	t.Run("looked at", func(t *testing.T) {
		link(real, f.at("links", "a"))
		isLink(t, f.at("links", "a"))
		if info, err := w.Stat(limited(t), f.at("links", "a")); err != nil || !info.Mode.IsRegular() {
			t.Errorf("through the link: %+v, %v", info, err)
		}
		_, err := w.Lstat(limited(t), f.at("links", "none"))
		isAbsent(t, err)
	})
	t.Run("written through", func(t *testing.T) {
		do(t, w, change.WriteFile{Path: f.at("links", "a"), Data: []byte("through"), Mode: 0o600})
		isLink(t, f.at("links", "a"))
		f.reads(t, real, "through")
	})
	t.Run("dangling", func(t *testing.T) {
		link("../real/none", f.at("links", "b"))
		dangling := change.Remove{Path: f.at("links", "b")}
		isDone(t, w, dangling, false)
		do(t, w, change.WriteFile{Path: f.at("links", "b"), Data: []byte("new"), Mode: 0o600})
		isLink(t, f.at("links", "b"))
		f.reads(t, f.at("real", "none"), "new")
		do(t, w, change.Remove{Path: f.at("real", "none")})
		do(t, w, dangling)
		_, err := w.Lstat(limited(t), f.at("links", "b"))
		isAbsent(t, err)
	})
	t.Run("removed", func(t *testing.T) {
		do(t, w, change.Remove{Path: f.at("links", "a"), OnlyEmpty: true})
		isLink(t, f.at("links", "a"))
		do(t, w, change.Remove{Path: f.at("links", "a")})
		f.reads(t, real, "through")
	})
	t.Run("emptied", func(t *testing.T) {
		link("../real", f.at("links", "c"))
		do(t, w, change.Remove{Path: f.at("links", "c"), Contents: true})
		isLink(t, f.at("links", "c"))
		f.gone(t, real)
		f.hasMode(t, f.at("real"), 0o755|fs.ModeDir)
	})
	t.Run("to the operating system", func(t *testing.T) {
		link("/proc", f.at("links", "d")) // which a world that does not refuse cannot harm
		err := w.Do(limited(t), change.Remove{Path: f.at("links", "d"), Contents: true})
		if err == nil || !strings.Contains(err.Error(), "a directory of the operating system") {
			t.Errorf("emptying /proc: got %v", err)
		}
		do(t, w, change.Remove{Path: f.at("links", "d")})
	})
}

// LinkedTrees checks giving a directory away that is named by a link, which takes root; see Links.
func LinkedTrees(t *testing.T, w world.World, root string, link func(to, at string)) {
	f := files{w, root}
	deep := f.write1(t, "x", "elsewhere", "member", "file")
	link(path.Dir(path.Dir(deep)), f.at("data"))
	give := change.SetOwner{Path: f.at("data"), UID: 7, GID: 8, Name: "7:8", Below: true}
	isDone(t, w, give, false)
	do(t, w, give)
	f.owned(t, deep, 7, 8, 0o640)
	f.owned(t, f.at("elsewhere"), 7, 8, 0o755)
}
