package plan

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/pins"
)

// programKeys plans the programs of a copy of components/ in which one file got one more line.
func programKeys(t *testing.T, compiler, changed string) map[string]cache.Key {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../..")); err != nil {
		t.Fatal(err)
	}
	if changed != "" {
		f, err := os.OpenFile(filepath.Join(root, changed), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("// one more line\n"); err != nil {
			t.Fatal(err)
		}
	}
	all, err := pins.Releases(filepath.Join(root, "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	release, err := pins.Choose(all, "v1.37")
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{root: root, compiler: compiler, release: release}
	parts, err := p.programParts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]cache.Key{}
	for _, part := range parts {
		keys[part.Name] = part.Key
	}
	return keys
}

func TestChangeRebuildsOnlyAffectedParts(t *testing.T) {
	before := programKeys(t, "go1", "")
	for changed, want := range map[string][]string{
		"tools/coredns/go.sum":                 {"coredns"},
		"tools/runc/go.mod":                    {"runc"},
		"kubernetes/v1.37.mod":                 {"kubelet-bootstrap", "kubernetes"},
		"kubernetes/hyperkube/main.go":         {"kubernetes"},
		"kubernetes/kubelet-bootstrap/main.go": {"kubelet-bootstrap"},
		"pause/main.go":                        {"pause"},
		"internal/image/image.go":              nil,
	} {
		after := programKeys(t, "go1", changed)
		var touched []string
		for name := range before {
			if before[name] != after[name] {
				touched = append(touched, name)
			}
		}
		slices.Sort(touched)
		if !slices.Equal(touched, want) {
			t.Errorf("%s changed: %v built again, want %v", changed, touched, want)
		}
	}
}

func TestCompilerChangeRebuildsEverything(t *testing.T) {
	before, after := programKeys(t, "go1", ""), programKeys(t, "go2", "")
	for name := range before {
		if before[name] == after[name] {
			t.Errorf("%s is kept", name)
		}
	}
}
