package worldtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Files checks reading and changing files; root is an empty directory of the world.
func Files(t *testing.T, w world.World, root string) {
	FilesWithModes(t, w, root, newFileSuite(w, root).shown)
}

// FilesWithModes is Files in a world that does not know all permissions: shown is the mode of a file
// or directory that was created with another one.
func FilesWithModes(t *testing.T, w world.World, root string, shown func(fs.FileMode) fs.FileMode) {
	f := fileSuite{w, root, shown}
	t.Run("no file", func(t *testing.T) {
		_, err := w.ReadFile(newContext(t), f.at("nothing"))
		wantNotExist(t, err)
		_, err = w.Stat(newContext(t), f.at("nothing"))
		wantNotExist(t, err)
		_, err = w.ReadDir(newContext(t), f.at("nothing"))
		wantNotExist(t, err)
		wantDone(t, w, change.WriteFile{Path: f.at("nothing")}, false)
		wantDone(t, w, change.MakeDir{Path: f.at("nothing")}, false)
	})
	t.Run("write", func(t *testing.T) {
		before := w.Now()
		data := []byte("one")
		name := f.at("write", "deep", "file")
		mustDo(t, w, change.WriteFile{Path: name, Data: data, Mode: 0o600})
		copy(data, "two")
		f.wantContent(t, name, "one")
		f.wantMode(t, name, 0o600)
		f.wantMode(t, f.at("write"), 0o755|fs.ModeDir)
		f.wantMode(t, f.at("write", "deep"), 0o755|fs.ModeDir)
		info, err := w.Stat(newContext(t), name)
		// File systems use a coarse clock that lags behind.
		if err != nil || info.ModTime.Before(before.Add(-clockLag)) || info.ModTime.After(w.Now()) {
			t.Errorf("written at %v by the file, between %v and %v by the clock: %v", info.ModTime,
				before, w.Now(), err)
		}
		wantDone(t, w, change.WriteFile{Path: name, Data: []byte("another"), Mode: 0o600}, false)
		got, _ := w.ReadFile(newContext(t), name)
		copy(got, "XXX")
		f.wantContent(t, name, "one")
		if _, err := w.ReadDir(newContext(t), name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("reading a file as a directory: %v", err)
		}
	})
	t.Run("overwrite", func(t *testing.T) {
		name := f.writeText(t, "a long text", "over")
		mustDo(t, w, change.WriteFile{Path: name, Data: []byte("short"), Mode: 0o777})
		f.wantContent(t, name, "short")
		f.wantMode(t, name, 0o640)
		mustDo(t, w, change.WriteFile{Path: name, Mode: 0o600})
		f.wantContent(t, name, "")
	})
	t.Run("write atomically", f.atomicWrite)
	t.Run("list", func(t *testing.T) {
		for _, name := range []string{"c", "a", "b/inside"} {
			f.writeText(t, "x", "list", name)
		}
		inside, err := w.ReadDir(newContext(t), f.at("list"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range inside {
			got = append(got, i.Mode.Type().String()+" "+i.Path)
		}
		want := []string{"---------- " + f.at("list/a"), "d--------- " + f.at("list/b"),
			"---------- " + f.at("list/c")}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("private keys", f.privateKeys)
	t.Run("directories", f.directories)
	t.Run("remove", f.remove)
}

type fileSuite struct {
	w     world.World
	root  string
	shown func(fs.FileMode) fs.FileMode
}

// newFileSuite is for a world that knows all permissions.
func newFileSuite(w world.World, root string) fileSuite {
	return fileSuite{w, root, func(mode fs.FileMode) fs.FileMode { return mode }}
}

func (f fileSuite) at(names ...string) string {
	return path.Join(append([]string{f.root}, names...)...)
}

func (f fileSuite) writeText(t *testing.T, text string, names ...string) string {
	t.Helper()
	mustDo(t, f.w, change.WriteFile{Path: f.at(names...), Data: []byte(text), Mode: 0o640})
	return f.at(names...)
}

func (f fileSuite) wantContent(t *testing.T, name, want string) {
	t.Helper()
	got, err := f.w.ReadFile(newContext(t), name)
	if err != nil || string(got) != want {
		t.Errorf("reading %s: got %q and %v, want %q", name, got, err, want)
	}
}

func (f fileSuite) wantMode(t *testing.T, name string, want fs.FileMode) {
	t.Helper()
	info, err := f.w.Stat(newContext(t), name)
	want = f.shown(want)
	if err != nil || info.Mode != want || info.Path != name {
		t.Errorf("got %s with %v and %v, want %s with %v", info.Path, info.Mode, err, name, want)
	}
}

func (f fileSuite) wantAbsent(t *testing.T, name string) {
	t.Helper()
	_, err := f.w.Stat(newContext(t), name)
	wantNotExist(t, err)
}

// atomicWrite reads a file all the time while it is written.
func (f fileSuite) atomicWrite(t *testing.T) {
	old, new := bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<15)
	name := f.writeText(t, string(old), "one", "step")
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
			case <-time.After(time.Millisecond): // Windows replaces no file that is open
			}
		}
	})
	for i := range 20 {
		mustDo(t, f.w, change.WriteFile{Path: name, Data: [][]byte{new, old}[i%2], Mode: 0o600})
	}
	close(stop)
	wg.Wait()
	inside, err := f.w.ReadDir(newContext(t), f.at("one"))
	if err != nil || len(inside) != 1 {
		t.Errorf("got %v, %v; want no temporary files", inside, err)
	}
}

func (f fileSuite) directories(t *testing.T) {
	w := f.w
	t.Run("create", func(t *testing.T) {
		mustDo(t, w, change.MakeDir{Path: f.at("make", "two", "three"), Mode: 0o700})
		for _, d := range []string{"make", "make/two", "make/two/three"} {
			f.wantMode(t, f.at(d), 0o700|fs.ModeDir)
		}
		name := f.writeText(t, "x", "make", "two", "file")
		mustDo(t, w, change.MakeDir{Path: f.at("make", "two"), Mode: 0o755})
		f.wantMode(t, f.at("make", "two"), 0o700|fs.ModeDir)
		f.wantContent(t, name, "x")
	})
	t.Run("wrong file type", func(t *testing.T) {
		name := f.writeText(t, "x", "way", "file")
		wantDoError(t, w, change.MakeDir{Path: name, Mode: 0o755})
		wantDoError(t, w, change.MakeDir{Path: path.Join(name, "below"), Mode: 0o755})
		wantDoError(t, w, change.WriteFile{Path: path.Join(name, "below"), Mode: 0o644})
		wantDoError(t, w, change.WriteFile{Path: f.at("way"), Mode: 0o644})
		f.wantContent(t, name, "x")
		if _, err := w.ReadFile(newContext(t), f.at("way")); err == nil {
			t.Error("reading a directory as a file: want an error")
		}
	})
}

func (f fileSuite) remove(t *testing.T) {
	w := f.w
	t.Run("all", func(t *testing.T) {
		name, kept := f.writeText(t, "x", "remove", "file"), f.writeText(t, "x", "remove", "file2")
		deep := f.writeText(t, "x", "remove", "dir", "sub", "file")
		mustDo(t, w, change.Remove{Path: name})
		f.wantAbsent(t, name)
		mustDo(t, w, change.Remove{Path: f.at("remove", "dir")})
		f.wantAbsent(t, deep)
		f.wantAbsent(t, f.at("remove", "dir"))
		mustDo(t, w, change.Remove{Path: f.at("remove", "never-there")})
		f.wantContent(t, kept, "x")
	})
	t.Run("contents", func(t *testing.T) {
		mustDo(t, w, change.MakeDir{Path: f.at("contents"), Mode: 0o700})
		a, b := f.writeText(t, "x", "contents", "a"), f.writeText(t, "x", "contents", "sub", "b")
		beside := f.writeText(t, "x", "contents-beside")
		empty := change.Remove{Path: f.at("contents"), Contents: true}
		wantDone(t, w, empty, false)
		mustDo(t, w, empty)
		f.wantAbsent(t, a)
		f.wantAbsent(t, b)
		f.wantAbsent(t, f.at("contents", "sub"))
		f.wantMode(t, f.at("contents"), 0o700|fs.ModeDir)
		f.wantContent(t, beside, "x")
		mustDo(t, w, change.Remove{Path: f.at("never-there"), Contents: true})
		f.wantAbsent(t, f.at("never-there"))
	})
	t.Run("if empty", func(t *testing.T) {
		name := f.writeText(t, "x", "empty", "file")
		dir := change.Remove{Path: f.at("empty"), OnlyEmpty: true}
		mustDo(t, w, dir)
		f.wantContent(t, name, "x")
		mustDo(t, w, change.Remove{Path: name})
		wantDone(t, w, dir, false)
		mustDo(t, w, dir)
		f.wantAbsent(t, f.at("empty"))
		mustDo(t, w, dir)
	})
	t.Run("undo", func(t *testing.T) {
		name := f.writeText(t, "old", "back", "file")
		doAndUndo(t, w, change.WriteFile{Path: name, Data: []byte("new"), Mode: 0o600})
		f.wantContent(t, name, "old")
		doAndUndo(t, w, change.Remove{Path: name})
		f.wantContent(t, name, "old")
		f.wantMode(t, name, 0o640)
		doAndUndo(t, w, change.WriteFile{Path: f.at("back", "fresh"), Data: []byte("new"),
			Mode: 0o600})
		f.wantAbsent(t, f.at("back", "fresh"))
		pair := change.WriteKeyPair{
			Key:  change.WriteFile{Path: f.writeText(t, "old key", "back", "key"), Data: []byte("key")},
			Cert: change.WriteFile{Path: name, Data: []byte("certificate")},
		}
		wantDone(t, f.w, pair, false)
		mustDo(t, f.w, pair.Key)
		wantDone(t, f.w, pair, false)
		doAndUndo(t, f.w, pair)
		f.wantContent(t, pair.Key.Path, "key")
		f.wantContent(t, name, "old")
		doAndUndo(t, w, change.MakeDir{Path: f.at("back", "dir"), Mode: 0o700})
		f.wantAbsent(t, f.at("back", "dir"))
	})
}

// privateKeys are written as secrets or not at all, whatever the file is called.
func (f fileSuite) privateKeys(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for name, data := range map[string][]byte{"alone": block, "DER": der,
		"after a certificate": append([]byte("-----BEGIN CERTIFICATE-----\n"), block...)} {
		cert := change.WriteFile{Path: f.at("keys", name+".crt"), Data: data, Mode: 0o644}
		pair := change.WriteKeyPair{Cert: cert, Key: change.WriteFile{
			Path: f.at("keys", name+".key"), Data: block, Mode: 0o600, Secret: true}}
		for _, c := range []change.Change{cert, pair} {
			if err := f.w.Do(newContext(t), c); err == nil {
				t.Errorf("%s: %s was done", name, c)
			}
			f.wantAbsent(t, cert.Path)
			f.wantAbsent(t, pair.Key.Path)
		}
	}
}
