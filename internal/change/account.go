package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/state"
	"path"
	"strings"
)

// SetAccounts makes a machine have system users nobody can log in as, each with a group of his name, and further groups, or have none of
// them. Numbers are the lowest that are free.
type SetAccounts struct {
	Dir    string // of the files passwd, group and login.defs: /etc
	Users  []string
	Groups []Group
	Absent bool
}

// Group is a group of users besides their own ones.
type Group struct {
	Name    string
	Members []string
}

// Target is the machine's accounts.
func (c SetAccounts) Target() string { return "accounts:" + c.Dir }

func (c SetAccounts) String() string {
	verb := "make"
	if c.Absent {
		verb = "remove"
	}
	text := verb + " the system users " + strings.Join(c.Users, ", ")
	for _, g := range c.Groups {
		text += " and the group " + g.Name
	}
	return text
}

// PasswdFile and GroupFile are the files with the accounts.
func (c SetAccounts) PasswdFile() string { return path.Join(c.Dir, "passwd") }

// GroupFile is the file with the groups.
func (c SetAccounts) GroupFile() string { return path.Join(c.Dir, "group") }

// Done tells whether they are all there, or none of them. One that is there and is not as it should be is an error.
func (c SetAccounts) Done(ctx context.Context, r state.Reader) (bool, error) {
	old, err := ReadAccounts(ctx, r, c.Dir)
	if err != nil {
		return false, err
	}
	after, err := c.Edit(old)
	return err == nil && bytes.Equal(old.Passwd, after.Passwd) && bytes.Equal(old.Group, after.Group), err
}

// Inverse takes away those that are not there yet; what was removed cannot be made again with its old numbers.
func (c SetAccounts) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if c.Absent {
		return nil, ErrOneWay
	}
	have, err := ReadAccounts(ctx, r, c.Dir)
	back := SetAccounts{Dir: c.Dir, Absent: true}
	for _, name := range c.Users {
		if _, _, ok := have.User(name); !ok {
			back.Users = append(back.Users, name)
		}
	}
	for _, g := range c.Groups {
		if _, ok := have.GroupID(g.Name); !ok {
			back.Groups = append(back.Groups, g)
		}
	}
	return back, err
}

// Edit returns the files as they should be.
func (c SetAccounts) Edit(f Accounts) (Accounts, error) {
	if c.Absent {
		return c.without(f), nil
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

func (c SetAccounts) without(f Accounts) Accounts {
	for _, name := range c.Users {
		f.Passwd, f.Group = dropLine(f.Passwd, name), dropLine(f.Group, name)
	}
	for _, g := range c.Groups {
		f.Group = dropLine(f.Group, g.Name)
	}
	return f
}

// ReadAccounts reads a machine's accounts. A file that is not there is empty.
func ReadAccounts(ctx context.Context, r state.Files, dir string) (f Accounts, err error) {
	for name, into := range map[string]*[]byte{"passwd": &f.Passwd, "group": &f.Group, "login.defs": &f.LoginDefs} {
		data, err := r.ReadFile(ctx, path.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("reading the accounts of this machine: %w", err)
		}
		*into = data
	}
	return f, nil
}
