package sharedcerts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// argumentFile is a file that an argument of a component names, as it is uploaded: a line of JSON, then the
// content. Both are encrypted together, so that neither can be exchanged alone.
type argumentFile struct {
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode"` // permissions
	UID  int         `json:"uid"`
	GID  int         `json:"gid"`
	// User and Group are accounts of a rootless control plane, whose IDs may differ between machines. They
	// are empty for others.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`

	data []byte
	from preflight.ArgumentFile
}

func newArgumentFile(from preflight.ArgumentFile, info state.FileInfo, data []byte) argumentFile {
	return argumentFile{Path: from.Path, Mode: info.Mode.Perm(), UID: info.UID, GID: info.GID, data: data, from: from}
}

func (f argumentFile) encode() ([]byte, error) {
	header, err := json.Marshal(f)
	return append(append(header, '\n'), f.data...), err
}

// decodeArgumentFile is an error for anything but the result of encode. The error has nothing of the content.
func decodeArgumentFile(text []byte) (f argumentFile, err error) {
	header, data, found := bytes.Cut(text, []byte("\n"))
	if !found || json.Unmarshal(header, &f) != nil || !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path ||
		f.Mode != f.Mode.Perm() || f.UID < 0 || f.GID < 0 {
		return f, errors.New("it is not an uploaded file")
	}
	f.data = data
	return f, nil
}

// nameAccounts sets the names of the accounts if the file belongs to a component of a rootless control plane.
func (f *argumentFile) nameAccounts(n *node.Node, accounts change.Accounts) {
	if !manifest.IsRootless(n) {
		return
	}
	all := manifest.SystemAccounts()
	groups := all.Users // a user has a group of its name
	for _, name := range all.Users {
		if uid, _, found := accounts.User(name); found && uid == f.UID {
			f.User = name
		}
	}
	for _, g := range all.Groups {
		groups = append(groups, g.Name)
	}
	for _, name := range groups {
		if gid, found := accounts.GroupID(name); found && gid == f.GID {
			f.Group = name
		}
	}
}

// placement is where the file belongs to the same accounts on this machine. Missing directories are readable for
// root only, but for the components of a rootless control plane.
func (f argumentFile) placement(n *node.Node, accounts change.Accounts) (*change.Placement, error) {
	p := &change.Placement{UID: f.UID, GID: f.GID, DirMode: 0o700}
	if !manifest.IsRootless(n) {
		return p, nil
	}
	p.DirMode = 0o755
	found := true
	if f.User != "" {
		p.UID, _, found = accounts.User(f.User)
	}
	if f.Group != "" && found {
		p.GID, found = accounts.GroupID(f.Group)
	}
	if !found {
		return nil, fmt.Errorf("the owner of %s, %s:%s, is not on this machine", f.Path, f.User, f.Group)
	}
	return p, nil
}
