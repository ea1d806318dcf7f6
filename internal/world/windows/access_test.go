//go:build windows

package windows

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"kubeadm/internal/change"
)

// newTempDir is t.TempDir with the removal of this package: that of Go needs a call that Wine does
// not have.
func newTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubeadm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeTree(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDescriptorOfNewFiles(t *testing.T) {
	for _, c := range []struct {
		mode fs.FileMode
		dir  bool
		user string
		want string
	}{
		{0o600, false, "", "O:BAD:P(A;;FA;;;BA)(A;;FA;;;SY)"},
		{0o640, false, "", "O:BAD:P(A;;FA;;;BA)(A;;FA;;;SY)"},
		{0o644, false, "", "O:BAD:P(A;;FA;;;BA)(A;;FA;;;SY)(A;;FRFX;;;WD)"},
		{0o700, true, "", "O:BAD:P(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)"},
		{0o755, true, "", "O:BAD:P(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;CI;FRFX;;;WD)"},
		{0o777, true, "", "O:BAD:P(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)" +
			"(A;OICI;FRFX;;;WD)(A;CI;0x6;;;WD)(A;OICIIO;FA;;;CO)"},
		{0o600, false, "S-1-5-21-1-2-3-1001",
			"D:P(A;;FA;;;BA)(A;;FA;;;SY)(A;;FA;;;S-1-5-21-1-2-3-1001)"},
	} {
		got := descriptor(c.mode, c.dir, c.user)
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.mode, got, c.want)
		}
		d, err := windows.SecurityDescriptorFromString(got)
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		list, _, err := d.DACL()
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Count(got, "("); list.AceCount != uint16(want) {
			t.Errorf("%s has %d entries, want %d", got, list.AceCount, want)
		}
		control, _, err := d.Control()
		if err != nil || control&windows.SE_DACL_PROTECTED == 0 {
			t.Errorf("%s inherits access: %v", got, err)
		}
		if c.user != "" || c.mode == 0o640 { // the list does not say everything of these
			continue
		}
		if mode, uid, err := permissions(d, c.dir); err != nil || mode != c.mode || uid != 0 {
			t.Errorf("%s: mode %o, owner %d, %v; want %o", got, mode, uid, err, c.mode)
		}
	}
}

func TestPermissionsOfDescriptors(t *testing.T) {
	for text, want := range map[string]struct {
		file, dir fs.FileMode
		trusted   bool
	}{
		"O:BAD:P(A;;FA;;;BA)(A;;FA;;;SY)":                                {0o600, 0o700, true},
		"O:BAD:P(A;;FA;;;BA)(A;;FA;;;SY)(A;;FRFX;;;WD)":                  {0o644, 0o755, true},
		"O:SYD:(A;;FA;;;SY)(A;;FA;;;WD)":                                 {0o666, 0o777, true},
		"O:SYD:(A;;FA;;;SY)(A;;GR;;;AU)":                                 {0o644, 0o755, true},
		"O:SYD:(A;;FA;;;SY)(A;;GA;;;AU)":                                 {0o666, 0o777, true},
		"O:SYD:(A;;FA;;;SY)(A;;WD;;;AU)":                                 {0o622, 0o722, true},
		"O:SYD:(A;;FA;;;SY)(A;OICIIO;FA;;;AU)":                           {0o600, 0o700, true}, // of what is below
		"O:S-1-5-21-1-2-3-1001D:(A;;FA;;;S-1-5-21-1-2-3-1001)":           {0o600, 0o700, false},
		"O:SYD:(A;;FA;;;S-1-5-21-1-2-3-1001)(D;;FA;;;WD)":                {0o666, 0o777, true},
		"O:" + trustedInstaller + "D:(A;;FA;;;" + trustedInstaller + ")": {0o600, 0o700, true},
		"O:SY": {0o666, 0o777, true}, // no list
	} {
		d, err := windows.SecurityDescriptorFromString(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for dir, mode := range map[bool]fs.FileMode{false: want.file, true: want.dir} {
			got, uid, err := permissions(d, dir)
			if err != nil || got != mode || (uid == 0) != want.trusted {
				t.Errorf("%s: mode %o, owner %d, %v; want %o", text, got, uid, err, mode)
			}
		}
	}
}

// TestAccessOfWrittenFiles reads what the file system keeps.
func TestAccessOfWrittenFiles(t *testing.T) {
	dir := filepath.ToSlash(newTempDir(t)) + "/private"
	m := Machine{}
	for _, c := range []change.Change{
		change.MakeDir{Path: dir, Mode: 0o700},
		change.WriteFile{Path: dir + "/secret", Data: []byte("x"), Mode: 0o600, Secret: true},
		change.WriteFile{Path: dir + "/public", Data: []byte("x"), Mode: 0o644},
	} {
		if err := m.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, dir + "/secret": 0o600,
		dir + "/public": 0o644} {
		info, err := m.Stat(t.Context(), name)
		if err != nil || info.Mode != want || info.UID != 0 {
			t.Errorf("%s: %+v, %v; want mode %v", name, info, err, want)
		}
		d, err := readDescriptor(localPath(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s", name, d)
	}
	if got, err := m.ReadPrivate(t.Context(), dir+"/secret"); err != nil || string(got) != "x" {
		t.Errorf("the secret: %q, %v", got, err)
	}
	if _, err := m.ReadPrivate(t.Context(), dir+"/public"); err == nil {
		t.Error("a file that others can read counts as private")
	}
}

func TestPaths(t *testing.T) {
	t.Setenv("SystemDrive", "D:")
	for name, want := range map[string]string{"/etc/kubernetes": `D:\etc\kubernetes`,
		"C:/etc/../var": `C:\var`, `C:\x`: `C:\x`, "//./pipe/x": `\\.\pipe\x`, "a/b": `a\b`} {
		if got := localPath(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestLockExcludesOtherRuns(t *testing.T) {
	dir := newTempDir(t)
	s, err := NewStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewStore(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a second run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := NewStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoreAppendsAndReplaces(t *testing.T) {
	dir := filepath.Join(newTempDir(t), "tmp", "journal")
	s, err := NewStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if err := s.Append("log", []byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Load("log"); err != nil || string(got) != "line\nline\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := s.Replace("values", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load("values"); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory above: %v", err)
	}
}

func TestTreesAreRemoved(t *testing.T) {
	dir := newTempDir(t)
	elsewhere := filepath.Join(dir, "elsewhere")
	deep := filepath.Join(dir, "tree", "a", "b", "c")
	for _, d := range []string{elsewhere, deep} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(deep, "link")); err != nil {
		t.Logf("without a symbolic link: %v", err)
	}
	open, err := os.Create(filepath.Join(dir, "tree", "open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := removeTree(filepath.Join(dir, "tree")); err == nil {
		t.Error("a file that is open was removed")
	}
	if _, err := os.Stat(filepath.Join(dir, "tree", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what could be removed is there: %v", err)
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := removeTree(filepath.Join(dir, "tree")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "file")); err != nil {
		t.Errorf("behind the link: %v", err)
	}
}

// The names are of one directory, below that of Windows and empty, should it be removed after all.
func TestSystemDirectoriesAreNotRemoved(t *testing.T) {
	dir, err := os.MkdirTemp(filepath.Join(os.Getenv("SystemRoot"), "Temp"), "kubeadm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	for _, name := range []string{dir, filepath.ToSlash(dir), strings.ToUpper(dir), dir + ".", dir + `\.`,
		filepath.Join(dir, "none", "..")} {
		for _, contents := range []bool{false, true} {
			err := Machine{}.Do(t.Context(), change.Remove{Path: name, Contents: contents})
			if !errors.Is(err, change.ErrSystemDirectory) {
				t.Errorf("%s, contents %t: %v", name, contents, err)
			}
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// TestDevicesAreNotFiles gives names that are devices in every directory.
func TestDevicesAreNotFiles(t *testing.T) {
	dir := newTempDir(t)
	for _, name := range []string{"NUL", "nul", `\\.\NUL`, filepath.Join(dir, "NUL")} {
		data, err := Machine{}.ReadFile(t.Context(), name)
		if err == nil {
			t.Errorf("%s was read: %q", name, data)
		}
		for _, c := range []change.Change{change.WriteFile{Path: name, Data: []byte("x"), Mode: 0o600},
			change.MakeDir{Path: name, Mode: 0o755}} {
			if err := (Machine{}).Do(t.Context(), c); err == nil {
				t.Errorf("%s: %s was done", name, c)
			}
		}
	}
}

// TestLongPaths has paths that are longer than the 260 characters of old programs.
func TestLongPaths(t *testing.T) {
	m, dir := Machine{}, filepath.ToSlash(newTempDir(t))
	long := dir + strings.Repeat("/"+strings.Repeat("x", 50), 8)
	file := long + "/file"
	if err := m.Do(t.Context(), change.WriteFile{Path: file, Data: []byte("x"), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if got, err := m.ReadPrivate(t.Context(), file); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if list, err := m.ReadDir(t.Context(), long); err != nil || len(list) != 1 || list[0].Path != file {
		t.Errorf("%+v, %v", list, err)
	}
	if err := m.Do(t.Context(), change.Remove{Path: dir, Contents: true}); err != nil {
		t.Error(err)
	}
	if list, err := m.ReadDir(t.Context(), dir); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestReadOnlyFileIsReplaced(t *testing.T) {
	m, name := Machine{}, filepath.Join(newTempDir(t), "file")
	write := change.WriteFile{Path: name, Data: []byte("1"), Mode: 0o644}
	if err := m.Do(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o444); err != nil {
		t.Fatal(err)
	}
	write.Data = []byte("2")
	if err := m.Do(t.Context(), write); err != nil {
		t.Error(err)
	}
	if got, err := m.ReadFile(t.Context(), name); err != nil || string(got) != "2" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOpenDirectoryStays renames and removes a directory that a change has open, and one above it.
func TestOpenDirectoryStays(t *testing.T) {
	dir := newTempDir(t)
	inner := filepath.Join(dir, "outer", "inner")
	d, err := openDir(inner, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{inner, filepath.Dir(inner)} {
		if err := os.Rename(name, name+"-moved"); err == nil {
			t.Errorf("%s was renamed", name)
		}
	}
	if err := os.Remove(inner); err == nil {
		t.Error("it was removed")
	}
	if real, err := finalPath(d.handle()); err != nil || !strings.EqualFold(real, d.path) {
		t.Errorf("%q, %v; want %s", real, err, d.path)
	}
	d.close()
	if err := os.Rename(inner, inner+"-moved"); err != nil {
		t.Error(err)
	}
}
