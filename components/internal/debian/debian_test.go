package debian

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParsePolicy(t *testing.T) {
	got, err := parseURIs(`'http://mirror.example/pool/gcc-12-base_12.2.0-14%2bdeb12u1_amd64.deb' gcc-12-base_12.2.0-14+deb12u1_amd64.deb 37596 MD5Sum:8e7e
'http://mirror.example/pool/conntrack_1.4.7-1%2bb2_amd64.deb' conntrack_1%3a1.4.7-1+b2_amd64.deb 35240 
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{{"gcc-12-base", "12.2.0-14+deb12u1"}, {"conntrack", "1:1.4.7-1+b2"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestInstalledVersionIsPreferred(t *testing.T) {
	const answer = "gcc:\n  Installed: 4:12.2.0-3\n  Candidate: 4:12.2.0-9\nkmod:\n  Installed: (none)\n  Candidate: 30-1\nold:\n  Installed: (none)\n  Candidate: (none)\n"
	got, err := parsePolicy(answer, []string{"gcc", "kmod"})
	if want := []Package{{"gcc", "4:12.2.0-3"}, {"kmod", "30-1"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, name := range []string{"old", "unknown"} {
		if _, err := parsePolicy(answer, []string{name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestInstalledOrder(t *testing.T) {
	got, err := Installed(t.Context(), "tar", "no-such-package-at-all", "dpkg")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "tar" || got[1].Name != "dpkg" || got[0].Version == "" {
		t.Errorf("got %v", got)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Closure(context.Background(), "kmod")
	if err == nil || !strings.Contains(err.Error(), "needs a Debian machine") {
		t.Errorf("got %v", err)
	}
}

func TestMergedRootLinksIntoUsr(t *testing.T) {
	dir := t.TempDir()
	if err := mergedRoot(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lib", "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr", "lib", "x")); err != nil {
		t.Error(err)
	}
}
