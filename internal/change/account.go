package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"kubeadm/internal/state"
)

// SetAccounts creates or removes system users without a login shell, each with a group of the same
// name, and more groups. New users and groups get the lowest free IDs.
type SetAccounts struct {
	Dir    string // of the files passwd, group and login.defs: /etc
	Users  []string
	Groups []Group
	Absent bool // remove them
}

// Group is a group with several members.
type Group struct {
	Name    string
	Members []string
}

// Target names the accounts of the machine.
func (c SetAccounts) Target() string { return "accounts:" + c.Dir }

func (c SetAccounts) String() string {
	verb := "create"
	if c.Absent {
		verb = "remove"
	}
	text := verb + " the system users " + strings.Join(c.Users, ", ")
	for _, g := range c.Groups {
		text += " and the group " + g.Name
	}
	return text
}

// PasswdFile is the path of passwd(5).
func (c SetAccounts) PasswdFile() string { return path.Join(c.Dir, "passwd") }

// GroupFile is the path of group(5).
func (c SetAccounts) GroupFile() string { return path.Join(c.Dir, "group") }

// Done reports whether all of them exist, or none with Absent. A user or group that exists with
// other settings is an error.
func (c SetAccounts) Done(ctx context.Context, r state.Reader) (bool, error) {
	old, err := ReadAccounts(ctx, r, c.Dir)
	if err != nil {
		return false, err
	}
	after, err := c.Edit(old)
	return err == nil && bytes.Equal(old.Passwd, after.Passwd) &&
		bytes.Equal(old.Group, after.Group), err
}

// Inverse removes those that do not exist yet. A removal is ErrIrreversible, as the old IDs may be
// taken later.
func (c SetAccounts) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if c.Absent {
		return nil, ErrIrreversible
	}
	existing, err := ReadAccounts(ctx, r, c.Dir)
	removal := SetAccounts{Dir: c.Dir, Absent: true}
	for _, name := range c.Users {
		if _, _, ok := existing.User(name); !ok {
			removal.Users = append(removal.Users, name)
		}
	}
	for _, g := range c.Groups {
		if _, ok := existing.GroupID(g.Name); !ok {
			removal.Groups = append(removal.Groups, g)
		}
	}
	return removal, err
}

// Edit returns the files with the change applied.
func (c SetAccounts) Edit(f Accounts) (Accounts, error) {
	if c.Absent {
		for _, name := range c.Users {
			f.Passwd, f.Group = removeLine(f.Passwd, name), removeLine(f.Group, name)
		}
		for _, g := range c.Groups {
			f.Group = removeLine(f.Group, g.Name)
		}
		return f, nil
	}
	for _, name := range c.Users {
		if err := f.addGroup(Group{Name: name}); err != nil {
			return f, err
		}
		if err := f.addUser(name); err != nil {
			return f, err
		}
	}
	for _, g := range c.Groups {
		if err := f.addGroup(g); err != nil {
			return f, err
		}
	}
	return f, nil
}

// ReadAccounts reads the account files. A file that does not exist counts as empty.
func ReadAccounts(ctx context.Context, r state.Files, dir string) (f Accounts, err error) {
	for name, into := range map[string]*[]byte{"passwd": &f.Passwd, "group": &f.Group,
		"login.defs": &f.LoginDefs} {
		data, err := r.ReadFile(ctx, path.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("reading the accounts of this machine: %w", err)
		}
		*into = data
	}
	return f, nil
}
