package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestArchiveImageNames(t *testing.T) {
	refs := []string{"registry.example/a:v1", "registry.example/b:v2"}
	files := read(t, archive(t, refs...))
	var index v1.IndexManifest
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range index.Manifests {
		names = append(names, m.Annotations[refAnnotation])
		if files["blobs/sha256/"+m.Digest.Hex] == nil {
			t.Errorf("%s: its manifest is not in the archive", names)
		}
	}
	if !slices.Equal(names, refs) {
		t.Errorf("have %v, want %v", names, refs)
	}
}

func TestSharedLayerIsStoredOnce(t *testing.T) {
	files := read(t, archive(t, "registry.example/a:v1", "registry.example/b:v2"))
	layers := 0
	for _, data := range files {
		if bytes.Contains(data, []byte("usr/bin/other")) {
			layers++
		}
	}
	if layers != 1 {
		t.Errorf("the layer is there %d times", layers)
	}
}

func TestEqualTreesAreEqualArchives(t *testing.T) {
	a, b := archive(t, "registry.example/a:v1"), archive(t, "registry.example/a:v1")
	if !bytes.Equal(a, b) {
		t.Error("two archives of the same tree differ")
	}
}

func TestLayerKeepsLinksAndModes(t *testing.T) {
	layer, err := Layer(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(h.FileInfo().Mode().String()+" "+h.Name+" "+h.Linkname))
	}
	want := []string{"dtrwxrwxrwx tmp/", "drwxr-xr-x usr/", "drwxr-xr-x usr/bin/", "Lrwxrwxrwx usr/bin/other program", "-rwxr-xr-x usr/bin/program"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "usr", "bin")
	if err := errors.Join(
		os.MkdirAll(bin, 0o755),
		os.WriteFile(filepath.Join(bin, "program"), []byte("#!"), 0o755),
		os.Symlink("program", filepath.Join(bin, "other")),
		os.Mkdir(filepath.Join(dir, "tmp"), 0o755),
		os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

func archive(t *testing.T, refs ...string) []byte {
	t.Helper()
	layer, err := Layer(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	var images []Image
	for _, ref := range refs {
		images = append(images, Image{Ref: ref, Arch: "amd64", Layers: []v1.Layer{layer}, Entrypoint: []string{ref}})
	}
	file := filepath.Join(t.TempDir(), "a.tar")
	if err := WriteArchive(file, images); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func read(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}
