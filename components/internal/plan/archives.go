package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/image"
)

// TestImage is the image that tests run in Pods. No registry serves it.
const TestImage = "kubeadm.test/agnhost:1"

// Archive describes one file of images.
type Archive struct {
	File   string   `json:"file"`   // relative to the bundle
	SHA256 string   `json:"sha256"` // of the file, in hex
	Images []string `json:"images"` // full names with tags
}

// programImage is an archive with one image of one static program.
type programImage struct {
	program, path, user string
	ref                 string // empty: the image that upstream's kubeadm lists for the program
}

func programImages() []programImage {
	return []programImage{
		{program: "coredns", path: "coredns"},
		{program: "pause", path: "pause", user: "65535:65535"},
		{program: "agnhost", path: "usr/local/bin/agnhost", ref: TestImage},
	}
}

func (p *Plan) archiveParts() []cache.Part {
	kubernetes := p.program("kubernetes")
	from := []cache.Part{kubernetes, p.userland}
	if p.published != nil {
		from = append(from, p.program("etcd"))
	}
	parts := []cache.Part{p.archivePart("kubernetes", p.kubernetesImages, from...)}
	for _, s := range programImages() {
		images := func(ctx context.Context, stage string) ([]image.Image, error) { return p.singleImage(ctx, s, stage) }
		parts = append(parts, p.archivePart(s.program, images, kubernetes, p.program(s.program)))
	}
	return parts
}

// archivePart is an archive NAME.tar and its description. The parts in from are built before.
func (p *Plan) archivePart(name string, images func(ctx context.Context, stage string) ([]image.Image, error), from ...cache.Part) cache.Part {
	return cache.Part{
		Name: "images-" + name,
		Key:  cache.NewKey(append(partKeys(from...), p.packer)...),
		Build: func(ctx context.Context, dir string) error {
			stage := filepath.Join(dir, "stage")
			defer os.RemoveAll(stage)
			all, err := images(ctx, stage)
			if err != nil {
				return err
			}
			file := filepath.Join(dir, name+".tar")
			if err := image.WriteArchive(file, all); err != nil {
				return err
			}
			if err := os.RemoveAll(stage); err != nil {
				return err
			}
			return writeDescription(file, all)
		},
	}
}

// kubernetesImageNames are the images of the archive of Kubernetes, each named after its program.
func kubernetesImageNames() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd"}
}

// kubernetesImages are the images of the control plane, kube-proxy and etcd.
func (p *Plan) kubernetesImages(ctx context.Context, stage string) ([]image.Image, error) {
	refs, err := p.listImages(ctx)
	if err != nil {
		return nil, err
	}
	layers, err := p.kubernetesLayers(stage)
	if err != nil {
		return nil, err
	}
	userland, err := image.Layer(p.store.Path(p.userland))
	if err != nil {
		return nil, err
	}
	var images []image.Image
	for _, name := range kubernetesImageNames() {
		img := image.Image{
			Ref: refs[name], Arch: arch,
			Layers: []v1.Layer{layers[name]}, Entrypoint: []string{"/usr/local/bin/" + name},
		}
		if img.Ref == "" {
			return nil, fmt.Errorf("upstream's kubeadm lists no image for %s", name)
		}
		if name == "kube-proxy" {
			img.Layers = append(img.Layers, userland)
		}
		images = append(images, img)
	}
	return images, nil
}

// kubernetesLayers are the program layers of the images of Kubernetes, by image. Compiled, all are
// the same layer with the same program; downloaded, each image has a layer of its own.
func (p *Plan) kubernetesLayers(stage string) (map[string]v1.Layer, error) {
	layers := map[string]v1.Layer{}
	if p.published == nil {
		base, err := programLayer(stage, p.file("kubernetes", "hyperkube"), "usr/local/bin/hyperkube",
			append(kubernetesImageNames(), "etcdctl")...)
		for _, name := range kubernetesImageNames() {
			layers[name] = base
		}
		return layers, err
	}
	for _, name := range kubernetesImageNames() {
		dir, program := filepath.Join(stage, name), p.file("kubernetes", name)
		if name == "etcd" {
			program = p.file("etcd", "etcd")
			bin := filepath.Join(dir, "usr/local/bin")
			if err := os.MkdirAll(bin, 0o755); err != nil {
				return nil, err
			}
			if err := os.Link(p.file("etcd", "etcdctl"), filepath.Join(bin, "etcdctl")); err != nil {
				return nil, err
			}
		}
		var err error
		if layers[name], err = programLayer(dir, program, "usr/local/bin/"+name); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

func (p *Plan) singleImage(ctx context.Context, s programImage, stage string) ([]image.Image, error) {
	if s.ref == "" {
		refs, err := p.listImages(ctx)
		if err != nil {
			return nil, err
		}
		if s.ref = refs[s.program]; s.ref == "" {
			return nil, fmt.Errorf("upstream's kubeadm lists no image for %s", s.program)
		}
	}
	layer, err := programLayer(stage, p.file(s.program, s.program), s.path)
	if err != nil {
		return nil, err
	}
	return []image.Image{{Ref: s.ref, Arch: arch, Layers: []v1.Layer{layer}, Entrypoint: []string{"/" + s.path}, User: s.user}}, nil
}

// programLayer is a layer with one program at path, symbolic links to it in the same directory,
// and a /tmp.
func programLayer(stage, program, path string, names ...string) (v1.Layer, error) {
	to := filepath.Join(stage, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, err
	}
	if err := os.Link(program, to); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := os.Symlink(filepath.Base(to), filepath.Join(filepath.Dir(to), name)); err != nil {
			return nil, err
		}
	}
	tmp := filepath.Join(stage, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		return nil, err
	}
	return image.Layer(stage)
}

// listImages lists the images that upstream's kubeadm needs, by the last part of their names:
// "etcd" to "registry.k8s.io/etcd:3.7.0-0".
func (p *Plan) listImages(ctx context.Context) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, p.file("kubernetes", "kubeadm-upstream"), "config", "images", "list",
		"--kubernetes-version", p.release.Version)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the images of upstream's kubeadm: %w", err)
	}
	refs := map[string]string{}
	for _, ref := range strings.Fields(string(out)) {
		name, _, _ := strings.Cut(path.Base(ref), ":")
		refs[name] = ref
	}
	return refs, nil
}

// writeDescription writes archive.json, which describes an archive, to its directory.
func writeDescription(file string, images []image.Image) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	a := Archive{File: "images/" + filepath.Base(file), SHA256: hex.EncodeToString(h.Sum(nil))}
	for _, i := range images {
		a.Images = append(a.Images, i.Ref)
	}
	return writeJSON(filepath.Join(filepath.Dir(file), "archive.json"), a)
}

func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
