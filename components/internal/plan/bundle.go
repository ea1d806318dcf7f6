package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"kubeadm/components/internal/cache"
)

// Bundle is the contents of bundle.json.
type Bundle struct {
	Kubernetes string            `json:"kubernetes"` // "v1.37.1"
	Components map[string]string `json:"components"` // versions by name
	TestImage  string            `json:"testImage"`
	Archives   []Archive         `json:"archives"`
}

// bundlePart is the result of the build: bin/, cni/, images/ and bundle.json. Its files are hard
// links to those of the other parts, so it needs no disk space and stays complete when a part is
// deleted.
func (p *Plan) bundlePart() cache.Part {
	from := append(append(partKeys(p.programs...), partKeys(p.archives...)...), p.packer)
	return cache.Part{Name: "bundle", Version: p.release.Version, Key: cache.NewKey(from...), Build: p.linkBundle}
}

func (p *Plan) linkBundle(ctx context.Context, dir string) error {
	for _, part := range p.programs {
		to := "bin"
		switch part.Name {
		case "cni":
			to = "cni"
		case "coredns", "pause", "agnhost": // only in images
			continue
		}
		if err := linkAll(p.store.Path(part), "*", filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	if p.published == nil {
		for _, name := range append(kubernetesImageNames(), "etcdctl", "kubectl", "kubelet") {
			if err := os.Symlink("hyperkube", filepath.Join(dir, "bin", name)); err != nil {
				return err
			}
		}
	}
	b := Bundle{Kubernetes: p.release.Version, TestImage: TestImage, Components: map[string]string{"etcd": p.release.Etcd}}
	for _, part := range p.programs {
		if part.Version != "" {
			b.Components[part.Name] = part.Version
		}
	}
	for _, part := range p.archives {
		if err := linkAll(p.store.Path(part), "*.tar", filepath.Join(dir, "images")); err != nil {
			return err
		}
		a, err := readArchive(filepath.Join(p.store.Path(part), "archive.json"))
		if err != nil {
			return err
		}
		b.Archives = append(b.Archives, a)
	}
	if err := p.checkImages(ctx, b.Archives); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "bundle.json"), b)
}

// checkImages checks that the archives have all images that upstream's kubeadm needs: otherwise a
// missing one would show only when a node tries to pull it.
func (p *Plan) checkImages(ctx context.Context, archives []Archive) error {
	refs, err := p.listImages(ctx)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if !slices.ContainsFunc(archives, func(a Archive) bool { return slices.Contains(a.Images, ref) }) {
			return fmt.Errorf("no archive has %s, which upstream's kubeadm %s needs", ref, p.release.Version)
		}
	}
	return nil
}

// linkAll hard-links the files of one directory that match the pattern into another.
func linkAll(from, pattern, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, pattern))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("nothing matches %s in %s; delete that directory to build it again", pattern, from)
	}
	for _, file := range files {
		if err := os.Link(file, filepath.Join(to, filepath.Base(file))); err != nil {
			return err
		}
	}
	return nil
}

func readArchive(file string) (a Archive, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("reading %s: %w", file, err)
	}
	return a, nil
}
