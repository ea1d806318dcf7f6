//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var runStart = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func createRunLog(t *testing.T, dir, command string, began time.Time) string {
	t.Helper()
	f, err := CreateRunLog(dir, command, began)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	return f.Name()
}

func TestRunLogIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubeadm")
	name := createRunLog(t, dir, "upgrade apply", runStart)
	if want := filepath.Join(dir, "upgrade-apply-20260901T120000.000Z.log"); name != want {
		t.Errorf("%s, want %s", name, want)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, name: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want mode %v", path, info, err, want)
		}
	}
	if _, err := CreateRunLog(dir, "upgrade apply", runStart); err == nil {
		t.Error("an existing log was opened again")
	}
}

// Only the oldest logs are removed, whatever their command, and no other file.
func TestOldRunLogsAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubeadm")
	var all []string
	for i := range 25 {
		command := []string{"join", "certs renew kubelet.conf", "init"}[i%3]
		all = append(all, createRunLog(t, dir, command, runStart.Add(time.Duration(i)*time.Hour)))
		if i > 0 {
			continue
		}
		for _, foreign := range []string{"init.log", "init-20260101T000000Z.log", "notes",
			"init-20260101T000000.000Z.log.gz"} {
			if err := os.WriteFile(filepath.Join(dir, foreign), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			all = append(all, filepath.Join(dir, foreign))
		}
		if err := os.Mkdir(filepath.Join(dir, "init-20250101T000000.000Z.log"), 0o700); err != nil {
			t.Fatal(err)
		}
		all = append(all, filepath.Join(dir, "init-20250101T000000.000Z.log"))
	}
	got, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(all[1:6]), all[10:]...) // the first five logs are gone
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A directory in which another user can plant files or links is not used.
func TestRunLogNeedsDirectoryOfItsOwn(t *testing.T) {
	for name, plant := range map[string]func(dir string) error{
		"a link":             func(dir string) error { return os.Symlink(filepath.Dir(dir), dir) },
		"a file":             func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"writable by others": func(dir string) error { _ = os.Mkdir(dir, 0o700); return os.Chmod(dir, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kubeadm")
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			if f, err := CreateRunLog(dir, "init", runStart); err == nil {
				t.Errorf("created %s", f.Name())
			}
		})
	}
	if _, err := CreateRunLog(filepath.Join(t.TempDir(), "missing", "kubeadm"), "init",
		runStart); err == nil {
		t.Error("the directory above was created")
	}
	if f, err := CreateRunLog(t.TempDir(), "../init", runStart); err == nil {
		t.Errorf("created %s", f.Name())
	}
}
