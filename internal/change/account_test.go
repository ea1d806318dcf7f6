package change_test

import (
	"strings"
	"testing"

	"kubeadm/internal/change"
)

// An account of ours that somebody has made otherwise is named, with what is wrong, and nothing is changed.
func TestUnfitAccountsAreNamed(t *testing.T) {
	c := change.SetAccounts{Users: []string{"we"}, Groups: []change.Group{{Name: "all", Members: []string{"we", "they"}}}}
	const group = "we:x:100:\nall:x:101:they,we\n"
	for says, f := range map[string]change.Accounts{
		"":                         {Passwd: []byte("we:x:100:100:::/bin/false\n"), Group: []byte(group)},
		"user we":                  {Passwd: []byte("we:x:100:100\n"), Group: []byte(group)},
		"1000 is none of a":        {Passwd: []byte("we:x:1000:100:::/bin/false\n"), Group: []byte(group)},
		"another group":            {Passwd: []byte("we:x:100:101:::/bin/false\n"), Group: []byte(group)},
		"/bin/sh":                  {Passwd: []byte("we:x:100:100:::/bin/sh\n"), Group: []byte(group)},
		"group we":                 {Group: []byte("we:x:0:\n")},
		"they,else":                {Group: []byte("all:x:101:they,else\n")},
		"no number is free":        {LoginDefs: []byte("SYS_UID_MIN 5\nSYS_UID_MAX 5\n"), Passwd: []byte("games:x:5:60::/:/bin/false\n")},
		"login.defs allows 7 to 6": {LoginDefs: []byte("SYS_GID_MIN 7\nSYS_GID_MAX 6\n")},
	} {
		after, err := c.Edit(f)
		if says == "" {
			if err != nil || string(after.Passwd) != string(f.Passwd) || string(after.Group) != string(f.Group) {
				t.Errorf("what is as it should be was changed to\n%s%s%v", after.Passwd, after.Group, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error that says %q, got %v", says, err)
		}
	}
}

func TestNamesThatOnlyBeginAlikeAreOthers(t *testing.T) {
	f := change.Accounts{Passwd: []byte("we-too:x:100:100:::/bin/sh\n"), Group: []byte("we-too:x:100:\n")}
	c := change.SetAccounts{Users: []string{"we"}, Absent: true}
	if after, err := c.Edit(f); err != nil || string(after.Passwd) != string(f.Passwd) || string(after.Group) != string(f.Group) {
		t.Errorf("got\n%s%s%v", after.Passwd, after.Group, err)
	}
}
