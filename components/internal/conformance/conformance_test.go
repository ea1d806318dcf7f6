package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"kubeadm/components/internal/pins"
)

func TestWriteTree(t *testing.T) {
	dir := t.TempDir()
	if err := writeTree(dir, map[string]string{"etc/hosts": "text", "var/log/": ""}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "etc/hosts")); err != nil || string(text) != "text" {
		t.Errorf("the file has %q: %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "var/log")); err != nil || !info.IsDir() {
		t.Errorf("there is no directory: %v", err)
	}
}

func TestModulePinsNewestRelease(t *testing.T) {
	root := filepath.Join("..", "..")
	releases, err := pins.Releases(filepath.Join(root, "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	newest, err := pins.Choose(releases, "")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := pins.Versions(filepath.Join(root, moduleDir, "go.mod"), "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if versions[0] != newest.Version {
		t.Errorf("the suite is of Kubernetes %s, the newest release is %s", versions[0], newest.Version)
	}
}
