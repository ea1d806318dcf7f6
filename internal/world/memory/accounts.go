package memory

import (
	"io/fs"
	"path"

	"kubeadm/internal/change"
)

func (w *World) setAccounts(c change.SetAccounts) error {
	old := change.Accounts{Passwd: w.Files[c.PasswdFile()].Data, Group: w.Files[c.GroupFile()].Data}
	old.LoginDefs = w.Files[path.Join(c.Dir, "login.defs")].Data
	after, err := c.Edit(old)
	if err != nil {
		return err
	}
	if err := w.writeFile(change.WriteFile{Path: c.GroupFile(), Data: after.Group,
		Mode: 0o644}); err != nil {
		return err
	}
	return w.writeFile(change.WriteFile{Path: c.PasswdFile(), Data: after.Passwd, Mode: 0o644})
}

func (w *World) setOwner(c change.SetOwner) error {
	name := w.resolve(c.Path, true)
	if _, ok := w.Files[name]; !ok {
		return w.notFoundError("chown", name)
	}
	for p, f := range w.Files {
		if p != name && (!c.Recursive || !isBelow(p, name)) {
			continue
		}
		if f.UID, f.GID = c.UID, c.GID; c.Mode != 0 && !c.Recursive {
			f.Mode = f.Mode&^fs.ModePerm | c.Mode.Perm()
		}
		w.Files[p] = f
	}
	return nil
}
