package pins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReleaseIsChosenByVersionOrMinor(t *testing.T) {
	dir := t.TempDir()
	for name, v := range map[string][2]string{"v1.9": {"v1.9.4", "v3.4.0"}, "v1.10": {"v1.10.1", "v3.5.0"}} {
		write(t, dir, name+".mod", "module m\nrequire (\n\tk8s.io/kubernetes "+v[0]+"\n\tgo.etcd.io/etcd/server/v3 "+v[1]+"\n)\n")
	}
	all, err := Releases(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "v1.10.1", "v1.10": "v1.10.1", "1.9": "v1.9.4", "v1.9.4": "v1.9.4"} {
		k, err := Choose(all, name)
		if err != nil || k.Version != want {
			t.Errorf("%q: got %v, %v", name, k, err)
		}
	}
	_, err = Choose(all, "1.9.5")
	if err == nil || !strings.Contains(err.Error(), "v1.9.4") {
		t.Errorf("a release that is not pinned: %v", err)
	}
}

func TestMissingRequirementNamesFileAndModule(t *testing.T) {
	file := write(t, t.TempDir(), "go.mod", "module m\nrequire a.example/a v1.0.0\n")
	_, err := Versions(file, "a.example/a", "b.example/b")
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "b.example/b") {
		t.Errorf("got %v", err)
	}
}
