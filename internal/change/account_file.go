package change

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kubeadm/internal/problem"
)

// Accounts are the files in which a machine keeps its users and groups: passwd(5), group(5) and login.defs(5).
type Accounts struct{ Passwd, Group, LoginDefs []byte }

// Numbers of system accounts where login.defs does not say otherwise.
const (
	firstSystemID = 100
	lastSystemID  = 999
	noLogin       = "/bin/false"
)

// User is a user's number and that of his group.
func (f Accounts) User(name string) (uid, gid int, ok bool) {
	fields := lineOf(f.Passwd, name)
	if len(fields) < 7 {
		return 0, 0, false
	}
	uid, uerr := strconv.Atoi(fields[2])
	gid, gerr := strconv.Atoi(fields[3])
	return uid, gid, uerr == nil && gerr == nil
}

// GroupID is a group's number.
func (f Accounts) GroupID(name string) (gid int, ok bool) {
	fields := lineOf(f.Group, name)
	if len(fields) < 4 {
		return 0, false
	}
	gid, err := strconv.Atoi(fields[2])
	return gid, err == nil
}

// addUser adds a user whose group is there. One that is there must be such a user.
func (f *Accounts) addUser(name string) error {
	group, _ := f.GroupID(name)
	fields := lineOf(f.Passwd, name)
	if fields == nil {
		uid, err := f.free("UID", f.Passwd)
		f.Passwd = addLine(f.Passwd, fmt.Sprintf("%s:x:%d:%d:::%s", name, uid, group, noLogin))
		return err
	}
	uid, gid, ok := f.User(name)
	switch first, last := f.limits("UID"); {
	case !ok:
		return unfit("user", name, "its line in passwd is damaged")
	case uid < first || uid > last:
		return unfit("user", name, fmt.Sprintf("its number %d is none of a system user, %d to %d", uid, first, last))
	case gid != group:
		return unfit("user", name, "it belongs to another group than its own")
	case fields[6] != noLogin:
		return unfit("user", name, fmt.Sprintf("its shell is %q, not %s", fields[6], noLogin))
	}
	return nil
}

// addGroup adds a group. One that is there must have just these members.
func (f *Accounts) addGroup(g Group) error {
	fields := lineOf(f.Group, g.Name)
	if fields == nil {
		gid, err := f.free("GID", f.Group)
		f.Group = addLine(f.Group, fmt.Sprintf("%s:x:%d:%s", g.Name, gid, strings.Join(g.Members, ",")))
		return err
	}
	gid, ok := f.GroupID(g.Name)
	switch first, last := f.limits("GID"); {
	case !ok:
		return unfit("group", g.Name, "its line in group is damaged")
	case gid < first || gid > last:
		return unfit("group", g.Name, fmt.Sprintf("its number %d is none of a system group, %d to %d", gid, first, last))
	case !sameMembers(fields[3], g.Members):
		return unfit("group", g.Name, fmt.Sprintf("its members are %q, not %q", fields[3], strings.Join(g.Members, ",")))
	}
	return nil
}

func unfit(kind, name, why string) error {
	err := fmt.Errorf("%s %s is there, but cannot be used: %s", kind, name, why)
	return problem.New("", err, fmt.Sprintf("rename or remove it, and one is made that can be: %sdel %s", kind, name))
}

func sameMembers(have string, want []string) bool {
	list := slices.DeleteFunc(strings.Split(have, ","), func(s string) bool { return s == "" })
	slices.Sort(list)
	return slices.Equal(list, slices.Sorted(slices.Values(want)))
}

// free is the lowest number of a system account that no line of a file has.
func (f Accounts) free(kind string, file []byte) (int, error) {
	taken := make(map[string]bool)
	for _, line := range strings.Split(string(file), "\n") {
		if fields := strings.Split(line, ":"); len(fields) > 2 {
			taken[fields[2]] = true
		}
	}
	first, last := f.limits(kind)
	for id := first; id <= last; id++ {
		if !taken[strconv.Itoa(id)] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("no number is free for a system account: login.defs allows %d to %d", first, last)
}

// limits are the numbers of system accounts; kind is UID or GID.
func (f Accounts) limits(kind string) (first, last int) {
	first, last = firstSystemID, lastSystemID
	for scan := bufio.NewScanner(bytes.NewReader(f.LoginDefs)); scan.Scan(); {
		words := strings.Fields(scan.Text())
		if len(words) < 2 {
			continue
		}
		number, err := strconv.Atoi(words[1])
		switch {
		case err != nil:
		case words[0] == "SYS_"+kind+"_MIN":
			first = number
		case words[0] == "SYS_"+kind+"_MAX":
			last = number
		}
	}
	return first, last
}

// lineOf returns the fields of the line that begins with a name; nil if there is none.
func lineOf(file []byte, name string) []string {
	for _, line := range strings.Split(string(file), "\n") {
		if strings.HasPrefix(line, name+":") {
			return strings.Split(line, ":")
		}
	}
	return nil
}

func addLine(file []byte, line string) []byte {
	file = slices.Clone(file)
	if len(file) > 0 && file[len(file)-1] != '\n' {
		file = append(file, '\n')
	}
	return append(file, line+"\n"...)
}

func dropLine(file []byte, name string) []byte {
	var kept []byte
	for line := range bytes.Lines(file) {
		if !bytes.HasPrefix(line, []byte(name+":")) {
			kept = append(kept, line...)
		}
	}
	return kept
}
