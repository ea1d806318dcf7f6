package change_test

import (
	"strings"
	"testing"

	"kubeadm/internal/change"
)

// An existing account with other settings is an error that names the difference. Nothing is
// changed.
func TestAccountConflicts(t *testing.T) {
	c := change.SetAccounts{Users: []string{"kube"},
		Groups: []change.Group{{Name: "all", Members: []string{"kube", "etcd"}}}}
	const group = "kube:x:100:\nall:x:101:etcd,kube\n"
	for says, f := range map[string]change.Accounts{
		"": {Passwd: []byte("kube:x:100:100:::/bin/false\n"),
			Group: []byte(group)},
		"user kube": {Passwd: []byte("kube:x:100:100\n"), Group: []byte(group)},
		"1000 is not that of a": {Passwd: []byte("kube:x:1000:100:::/bin/false\n"),
			Group: []byte(group)},
		"primary group": {Passwd: []byte("kube:x:100:101:::/bin/false\n"),
			Group: []byte(group)},
		"/bin/sh": {Passwd: []byte("kube:x:100:100:::/bin/sh\n"),
			Group: []byte(group)},
		"group kube": {Group: []byte("kube:x:0:\n")},
		"etcd,else":  {Group: []byte("all:x:101:etcd,else\n")},
		"no UID is free": {LoginDefs: []byte("SYS_UID_MIN 5\nSYS_UID_MAX 5\n"),
			Passwd: []byte("games:x:5:60::/:/bin/false\n")},
		"login.defs allows 7 to 6": {LoginDefs: []byte("SYS_GID_MIN 7\nSYS_GID_MAX 6\n")},
	} {
		after, err := c.Edit(f)
		if says == "" {
			if err != nil || string(after.Passwd) != string(f.Passwd) ||
				string(after.Group) != string(f.Group) {
				t.Errorf("matching accounts were changed to\n%s%s%v", after.Passwd, after.Group,
					err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error that says %q, got %v", says, err)
		}
	}
}

func TestAccountNamesAreNotMatchedByPrefix(t *testing.T) {
	f := change.Accounts{Passwd: []byte("kube-too:x:100:100:::/bin/sh\n"),
		Group: []byte("kube-too:x:100:\n")}
	c := change.SetAccounts{Users: []string{"kube"}, Absent: true}
	if after, err := c.Edit(f); err != nil || string(after.Passwd) != string(f.Passwd) ||
		string(after.Group) != string(f.Group) {
		t.Errorf("got\n%s%s%v", after.Passwd, after.Group, err)
	}
}
