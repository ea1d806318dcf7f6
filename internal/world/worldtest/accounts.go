package worldtest

import (
	"errors"
	"path"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Accounts checks making and removing system users; root is a folder of the world with nothing in it.
func Accounts(t *testing.T, w world.World, root string) {
	const passwd, group = "root:x:0:0:root:/root:/bin/bash\ntaken:x:100:100::/:/bin/false", "root:x:0:\nsix:x:101:\n"
	for name, text := range map[string]string{"passwd": passwd, "group": group, "login.defs": "SYS_GID_MIN 101\nUID_MIN 1000\n"} {
		do(t, w, change.WriteFile{Path: path.Join(root, name), Data: []byte(text), Mode: 0o644})
	}
	c := change.SetAccounts{Dir: root, Users: []string{"a-test", "b-test"}, Groups: []change.Group{{Name: "both", Members: []string{"b-test", "a-test"}}}}
	isDone(t, w, c, false)
	do(t, w, c)
	f := files{w, root}
	f.reads(t, path.Join(root, "passwd"), passwd+"\na-test:x:101:102:::/bin/false\nb-test:x:102:103:::/bin/false\n")
	f.reads(t, path.Join(root, "group"), group+"a-test:x:102:\nb-test:x:103:\nboth:x:104:b-test,a-test\n")
	do(t, w, c)
	undone(t, w, change.SetAccounts{Dir: root, Users: []string{"b-test", "c-test"}})
	f.reads(t, path.Join(root, "group"), group+"a-test:x:102:\nb-test:x:103:\nboth:x:104:b-test,a-test\n")
	refuses(t, w, change.SetAccounts{Dir: root, Groups: []change.Group{{Name: "both"}}})
	absent := c
	absent.Absent = true
	isDone(t, w, absent, false)
	if _, err := absent.Inverse(limited(t), w); !errors.Is(err, change.ErrOneWay) {
		t.Errorf("the inverse of a removal: %v", err)
	}
	do(t, w, absent)
	f.reads(t, path.Join(root, "passwd"), passwd+"\n")
	f.reads(t, path.Join(root, "group"), group)
}

// Owners checks giving files away, which takes root; root is a folder of the world with nothing in it.
func Owners(t *testing.T, w world.World, root string) {
	f := files{w, root}
	name := f.write1(t, "key", "owners", "key")
	give := change.SetOwner{Path: name, UID: 1234, GID: 4321, Name: "somebody", Mode: 0o600}
	isDone(t, w, give, false)
	undone(t, w, give)
	f.owned(t, name, 0, 0, 0o640)
	do(t, w, give)
	f.owned(t, name, 1234, 4321, 0o600)
	do(t, w, change.WriteFile{Path: name, Data: []byte("another key"), Mode: 0o644})
	f.owned(t, name, 1234, 4321, 0o600)
	do(t, w, change.SetOwner{Path: name, UID: 1, GID: 2, Name: "another"})
	f.owned(t, name, 1, 2, 0o600)
	err := w.Do(limited(t), change.SetOwner{Path: f.at("owners", "none"), Name: "somebody"})
	isAbsent(t, err)
	_, err = change.SetOwner{Path: f.at("owners", "none")}.Done(limited(t), w)
	isAbsent(t, err)
}

// Trees checks giving a folder away with all below it.
func Trees(t *testing.T, w world.World, root string) {
	f := files{w, root}
	do(t, w, change.MakeDir{Path: f.at("tree"), Mode: 0o700})
	deep, beside := f.write1(t, "x", "tree", "sub", "file"), f.write1(t, "x", "tree-beside")
	give := change.SetOwner{Path: f.at("tree"), UID: 7, GID: 8, Name: "somebody", Below: true}
	isDone(t, w, give, false)
	undone(t, w, give)
	f.owned(t, deep, 0, 0, 0o640)
	do(t, w, give)
	f.owned(t, f.at("tree"), 7, 8, 0o700)
	f.owned(t, f.at("tree", "sub"), 7, 8, 0o755)
	f.owned(t, deep, 7, 8, 0o640)
	f.owned(t, beside, 0, 0, 0o640)
	do(t, w, change.SetOwner{Path: deep, UID: 9, GID: 9, Name: "another"})
	isDone(t, w, give, false)
	if _, err := give.Inverse(limited(t), w); !errors.Is(err, change.ErrOneWay) {
		t.Errorf("the inverse of giving away what has two owners: %v", err)
	}
	if text := give.String(); !strings.Contains(text, f.at("tree")) || !strings.Contains(text, "somebody") {
		t.Errorf("it reads %q", text)
	}
}

func (f files) owned(t *testing.T, name string, uid, gid int, mode uint32) {
	t.Helper()
	info, err := f.w.Stat(limited(t), name)
	if err != nil || info.UID != uid || info.GID != gid || uint32(info.Mode.Perm()) != mode {
		t.Errorf("%s is %d:%d with %v, want %d:%d with %o: %v", name, info.UID, info.GID, info.Mode, uid, gid, mode, err)
	}
}
