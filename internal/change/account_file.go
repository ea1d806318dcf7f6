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

// Accounts are the files of users and groups: passwd(5), group(5) and login.defs(5).
type Accounts struct{ Passwd, Group, LoginDefs []byte }

// IDs of system accounts unless login.defs sets others.
const (
	firstSystemID = 100
	lastSystemID  = 999
	noLogin       = "/bin/false"
)

// User returns the UID and the primary GID of a user.
func (f Accounts) User(name string) (uid, gid int, ok bool) {
	fields := findLine(f.Passwd, name)
	if len(fields) < 7 {
		return 0, 0, false
	}
	uid, uerr := strconv.Atoi(fields[2])
	gid, gerr := strconv.Atoi(fields[3])
	return uid, gid, uerr == nil && gerr == nil
}

// GroupID returns the GID of a group.
func (f Accounts) GroupID(name string) (gid int, ok bool) {
	fields := findLine(f.Group, name)
	if len(fields) < 4 {
		return 0, false
	}
	gid, err := strconv.Atoi(fields[2])
	return gid, err == nil
}

// addUser adds a user whose group exists. If the user exists, it must have the settings of a new
// one.
func (f *Accounts) addUser(name string) error {
	group, _ := f.GroupID(name)
	fields := findLine(f.Passwd, name)
	if fields == nil {
		uid, err := f.findFreeID("UID", f.Passwd)
		f.Passwd = addLine(f.Passwd, fmt.Sprintf("%s:x:%d:%d:::%s", name, uid, group, noLogin))
		return err
	}
	uid, gid, ok := f.User(name)
	switch first, last := f.systemIDRange("UID"); {
	case !ok:
		return newAccountConflict("user", name, "its line in passwd is damaged")
	case uid < first || uid > last:
		return newAccountConflict("user", name,
			fmt.Sprintf("its UID %d is not that of a system user, %d to %d", uid, first, last))
	case gid != group:
		return newAccountConflict("user", name,
			"its primary group is not the group of the same name")
	case fields[6] != noLogin:
		return newAccountConflict("user", name,
			fmt.Sprintf("its shell is %q, not %s", fields[6], noLogin))
	}
	return nil
}

// addGroup adds a group. If the group exists, it must have exactly these members.
func (f *Accounts) addGroup(g Group) error {
	fields := findLine(f.Group, g.Name)
	if fields == nil {
		gid, err := f.findFreeID("GID", f.Group)
		f.Group = addLine(f.Group,
			fmt.Sprintf("%s:x:%d:%s", g.Name, gid, strings.Join(g.Members, ",")))
		return err
	}
	gid, ok := f.GroupID(g.Name)
	members := slices.DeleteFunc(strings.Split(fields[3], ","),
		func(s string) bool { return s == "" })
	slices.Sort(members)
	switch first, last := f.systemIDRange("GID"); {
	case !ok:
		return newAccountConflict("group", g.Name, "its line in group is damaged")
	case gid < first || gid > last:
		return newAccountConflict("group", g.Name,
			fmt.Sprintf("its GID %d is not that of a system group, %d to %d", gid, first, last))
	case !slices.Equal(members, slices.Sorted(slices.Values(g.Members))):
		return newAccountConflict("group", g.Name,
			fmt.Sprintf("its members are %q, not %q", fields[3], strings.Join(g.Members, ",")))
	}
	return nil
}

func newAccountConflict(kind, name, why string) error {
	err := fmt.Errorf("%s %s exists, but cannot be used: %s", kind, name, why)
	return problem.New(err,
		fmt.Sprintf("rename or remove it to have it created: %sdel %s", kind, name))
}

// findFreeID returns the lowest ID of a system account that no line of the file has.
func (f Accounts) findFreeID(kind string, file []byte) (int, error) {
	taken := make(map[string]bool)
	for _, line := range strings.Split(string(file), "\n") {
		if fields := strings.Split(line, ":"); len(fields) > 2 {
			taken[fields[2]] = true
		}
	}
	first, last := f.systemIDRange(kind)
	for id := first; id <= last; id++ {
		if !taken[strconv.Itoa(id)] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("no %s is free for a system account: login.defs allows %d to %d", kind,
		first, last)
}

// systemIDRange returns the IDs of system accounts; kind is UID or GID.
func (f Accounts) systemIDRange(kind string) (first, last int) {
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

// findLine returns the fields of the line of an account; nil if there is none.
func findLine(file []byte, name string) []string {
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

func removeLine(file []byte, name string) []byte {
	var kept []byte
	for line := range bytes.Lines(file) {
		if !bytes.HasPrefix(line, []byte(name+":")) {
			kept = append(kept, line...)
		}
	}
	return kept
}
