package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"kubeadm/components/internal/golang"
	"kubeadm/components/internal/image"
)

// archiveName is the file with the images.
const archiveName = "conformance.tar"

// writeArchive writes the archive of images to dir.
func (s *suite) writeArchive(ctx context.Context, dir string) error {
	stage := filepath.Join(dir, "stage")
	defer os.RemoveAll(stage)
	all, err := s.images(ctx, stage)
	if err != nil {
		return err
	}
	return image.WriteArchive(filepath.Join(dir, archiveName), all)
}

// imageContent is what an image of the suite contains and runs.
type imageContent struct {
	layers     []v1.Layer
	entrypoint []string
	command    []string
	user       string
}

// images are the images of the Pods of conformance tests, under the names that the suite lists.
func (s *suite) images(ctx context.Context, stage string) ([]image.Image, error) {
	contents, err := s.imageContents(ctx, stage)
	if err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, filepath.Join(s.store.Path(s.programs), "e2e.test"), "--list-images")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the images of the suite: %w", err)
	}
	var all []image.Image
	found := map[string]bool{}
	for _, ref := range strings.Fields(string(out)) {
		name, _, _ := strings.Cut(path.Base(ref), ":")
		content, ok := contents[name]
		if !ok || !strings.HasPrefix(ref, "registry.k8s.io/e2e-test-images/") {
			continue
		}
		found[name] = true
		all = append(all, image.Image{Ref: ref, Arch: runtime.GOARCH, Layers: content.layers, Entrypoint: content.entrypoint,
			Command: content.command, User: content.user})
	}
	for name := range contents {
		if !found[name] {
			return nil, fmt.Errorf("the suite of %s lists no image named %s", s.release.Version, name)
		}
	}
	return all, nil
}

func (s *suite) imageContents(ctx context.Context, stage string) (map[string]imageContent, error) {
	userland, err := image.Layer(s.store.Path(s.userland))
	if err != nil {
		return nil, err
	}
	busybox, err := image.Layer(s.store.Path(s.busybox))
	if err != nil {
		return nil, err
	}
	layers := map[string]v1.Layer{}
	for name, fill := range map[string]func(dir string) error{
		"agnhost": func(dir string) error { return s.fillAgnhost(ctx, dir) },
		"kitten": func(dir string) error {
			// A test mounts this image as a volume and expects these two files of the published image.
			return writeTree(dir, map[string]string{"data.json": `{"image": "kitten.jpg"}`,
				"etc/os-release": "NAME=\"Alpine Linux\"\n"})
		},
		"nautilus": func(dir string) error {
			return writeTree(dir, map[string]string{"data.json": `{"image": "nautilus.jpg"}`})
		},
		"nonewprivs": func(dir string) error {
			return s.addProgram(dir, "nonewprivs", "usr/local/bin/nnp", 0o755|os.ModeSetuid)
		},
		"sample-apiserver": func(dir string) error {
			return s.addProgram(dir, "sample-apiserver", "sample-apiserver", 0o755)
		},
	} {
		dir := filepath.Join(stage, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if err := fill(dir); err != nil {
			return nil, err
		}
		if layers[name], err = image.Layer(dir); err != nil {
			return nil, err
		}
	}
	with := func(name string) []v1.Layer { return []v1.Layer{userland, layers[name]} }
	website := func(name string) imageContent {
		return imageContent{layers: append(with("agnhost"), layers[name]), entrypoint: []string{"/agnhost"},
			command: []string{"test-webserver"}}
	}
	shell := []string{"sh"}
	return map[string]imageContent{
		"agnhost":           {layers: with("agnhost"), entrypoint: []string{"/agnhost"}, command: []string{"pause"}},
		"kitten":            website("kitten"),
		"nautilus":          website("nautilus"),
		"busybox":           {layers: []v1.Layer{busybox}, command: shell},
		"glibc-dns-testing": {layers: []v1.Layer{userland}, command: shell},
		"nginx":             {layers: []v1.Layer{userland}, command: []string{"/usr/sbin/nginx", "-g", "daemon off;"}},
		"nonroot":           {layers: []v1.Layer{userland}, command: shell, user: "1234"},
		"nonewprivs":        {layers: with("nonewprivs"), command: []string{"nnp"}},
		"sample-apiserver":  {layers: with("sample-apiserver"), entrypoint: []string{"/sample-apiserver"}},
	}, nil
}

// fillAgnhost writes the files of agnhost, which is most servers and clients of the suite. Its key pair for HTTPS is among
// its sources.
func (s *suite) fillAgnhost(ctx context.Context, dir string) error {
	sources, err := golang.Dir(ctx, filepath.Join(s.root, moduleDir), "k8s.io/kubernetes/test/images/agnhost")
	if err != nil {
		return err
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		data, err := os.ReadFile(filepath.Join(sources, "porter", name))
		if err != nil {
			return err
		}
		if err := writeTree(dir, map[string]string{name: string(data)}); err != nil {
			return err
		}
	}
	if err := os.Symlink("agnhost", filepath.Join(dir, "agnhost-2")); err != nil {
		return err
	}
	return s.addProgram(dir, "agnhost", "agnhost", 0o755)
}

// addProgram copies a program, since its mode may differ from that in the cache.
func (s *suite) addProgram(dir, program, to string, mode os.FileMode) error {
	data, err := os.ReadFile(filepath.Join(s.store.Path(s.programs), program))
	if err != nil {
		return err
	}
	if err := writeTree(dir, map[string]string{to: string(data)}); err != nil {
		return err
	}
	return os.Chmod(filepath.Join(dir, to), mode)
}
