package worldtest

import (
	"errors"
	"path"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Accounts checks creating and removing system users; root is an empty directory of the world.
func Accounts(t *testing.T, w world.World, root string) {
	const passwd, group = "root:x:0:0:root:/root:/bin/bash\ntaken:x:100:100::/:/bin/false",
		"root:x:0:\nsix:x:101:\n"
	for name, text := range map[string]string{"passwd": passwd, "group": group,
		"login.defs": "SYS_GID_MIN 101\nUID_MIN 1000\n"} {
		mustDo(t, w, change.WriteFile{Path: path.Join(root, name), Data: []byte(text), Mode: 0o644})
	}
	c := change.SetAccounts{Dir: root, Users: []string{"a-test", "b-test"},
		Groups: []change.Group{{Name: "both", Members: []string{"b-test", "a-test"}}}}
	wantDone(t, w, c, false)
	mustDo(t, w, c)
	f := newFileSuite(w, root)
	f.wantContent(t, path.Join(root, "passwd"),
		passwd+"\na-test:x:101:102:::/bin/false\nb-test:x:102:103:::/bin/false\n")
	f.wantContent(t, path.Join(root, "group"),
		group+"a-test:x:102:\nb-test:x:103:\nboth:x:104:b-test,a-test\n")
	mustDo(t, w, c)
	doAndUndo(t, w, change.SetAccounts{Dir: root, Users: []string{"b-test", "c-test"}})
	f.wantContent(t, path.Join(root, "group"),
		group+"a-test:x:102:\nb-test:x:103:\nboth:x:104:b-test,a-test\n")
	wantDoError(t, w, change.SetAccounts{Dir: root, Groups: []change.Group{{Name: "both"}}})
	absent := c
	absent.Absent = true
	wantDone(t, w, absent, false)
	if _, err := absent.Inverse(newContext(t), w); !errors.Is(err, change.ErrIrreversible) {
		t.Errorf("the inverse of a removal: %v", err)
	}
	mustDo(t, w, absent)
	f.wantContent(t, path.Join(root, "passwd"), passwd+"\n")
	f.wantContent(t, path.Join(root, "group"), group)
}

// Owners checks changing the owner of files, which needs root; root is an empty directory of the
// world.
func Owners(t *testing.T, w world.World, root string) {
	f := newFileSuite(w, root)
	name := f.writeText(t, "key", "owners", "key")
	give := change.SetOwner{Path: name, UID: 1234, GID: 4321, Name: "etcd-user", Mode: 0o600}
	wantDone(t, w, give, false)
	doAndUndo(t, w, give)
	f.wantOwner(t, name, 0, 0, 0o640)
	mustDo(t, w, give)
	f.wantOwner(t, name, 1234, 4321, 0o600)
	mustDo(t, w, change.WriteFile{Path: name, Data: []byte("another key"), Mode: 0o644})
	f.wantOwner(t, name, 1234, 4321, 0o600)
	placed := change.WriteFile{Path: f.at("owners", "new", "placed"), Data: []byte("key"), Mode: 0o640, Secret: true,
		Placement: &change.Placement{UID: 5, GID: 6, DirMode: 0o700}}
	for _, text := range []string{"key", "another key"} {
		placed.Data, placed.Placement.UID = []byte(text), len(text)
		mustDo(t, w, placed)
		f.wantContent(t, placed.Path, text)
		f.wantOwner(t, placed.Path, len(text), 6, 0o640)
		f.wantOwner(t, f.at("owners", "new"), 0, 0, 0o700)
	}
	mustDo(t, w, change.SetOwner{Path: name, UID: 1, GID: 2, Name: "another"})
	f.wantOwner(t, name, 1, 2, 0o600)
	err := w.Do(newContext(t), change.SetOwner{Path: f.at("owners", "none"), Name: "etcd-user"})
	wantNotExist(t, err)
	_, err = change.SetOwner{Path: f.at("owners", "none")}.Done(newContext(t), w)
	wantNotExist(t, err)
}

// DirectoryOwners checks changing the owner of a directory and all below it.
func DirectoryOwners(t *testing.T, w world.World, root string) {
	f := newFileSuite(w, root)
	mustDo(t, w, change.MakeDir{Path: f.at("tree"), Mode: 0o700})
	deep, beside := f.writeText(t, "x", "tree", "sub", "file"), f.writeText(t, "x", "tree-beside")
	give := change.SetOwner{Path: f.at("tree"), UID: 7, GID: 8, Name: "etcd-user", Recursive: true}
	wantDone(t, w, give, false)
	doAndUndo(t, w, give)
	f.wantOwner(t, deep, 0, 0, 0o640)
	mustDo(t, w, give)
	f.wantOwner(t, f.at("tree"), 7, 8, 0o700)
	f.wantOwner(t, f.at("tree", "sub"), 7, 8, 0o755)
	f.wantOwner(t, deep, 7, 8, 0o640)
	f.wantOwner(t, beside, 0, 0, 0o640)
	mustDo(t, w, change.SetOwner{Path: deep, UID: 9, GID: 9, Name: "another"})
	wantDone(t, w, give, false)
	if _, err := give.Inverse(newContext(t), w); !errors.Is(err, change.ErrIrreversible) {
		t.Errorf("the inverse for files of two owners: %v", err)
	}
	if text := give.String(); !strings.Contains(text, f.at("tree")) ||
		!strings.Contains(text, "etcd-user") {
		t.Errorf("got %q", text)
	}
}

func (f fileSuite) wantOwner(t *testing.T, name string, uid, gid int, mode uint32) {
	t.Helper()
	info, err := f.w.Stat(newContext(t), name)
	if err != nil || info.UID != uid || info.GID != gid || uint32(info.Mode.Perm()) != mode {
		t.Errorf("%s is %d:%d with %v, want %d:%d with %o: %v", name, info.UID, info.GID, info.Mode,
			uid, gid, mode, err)
	}
}
