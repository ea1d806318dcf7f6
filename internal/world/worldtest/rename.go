package worldtest

import (
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Renames tests change.Rename in a world. root is an empty directory.
func Renames(t *testing.T, w world.World, root string) {
	f := newFileSuite(w, root)
	f.writeText(t, "content", "from", "inner", "file")
	rename := change.Rename{From: f.at("from"), To: f.at("to")}
	t.Run("directory", func(t *testing.T) {
		wantDone(t, w, rename, false)
		mustDo(t, w, rename)
		wantDone(t, w, rename, true)
		f.wantContent(t, f.at("to", "inner", "file"), "content")
		_, err := w.Stat(newContext(t), f.at("from"))
		wantNotExist(t, err)
	})
	t.Run("back", func(t *testing.T) {
		back, err := rename.Inverse(newContext(t), w)
		if err != nil {
			t.Fatal(err)
		}
		mustDo(t, w, back)
		f.wantContent(t, f.at("from", "inner", "file"), "content")
	})
	t.Run("existing name", func(t *testing.T) {
		f.writeText(t, "other", "to")
		wantDone(t, w, rename, false)
		wantDoError(t, w, rename)
		f.wantContent(t, f.at("to"), "other")
		f.wantContent(t, f.at("from", "inner", "file"), "content")
	})
	t.Run("missing name", func(t *testing.T) {
		missing := change.Rename{From: f.at("none"), To: f.at("new")}
		if done, err := missing.Done(newContext(t), w); done || err == nil {
			t.Errorf("done is %v, %v", done, err)
		}
		wantDoError(t, w, missing)
	})
}
