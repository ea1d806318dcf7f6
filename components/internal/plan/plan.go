// Package plan defines the contents of a bundle: the programs, compiled or downloaded in their
// pinned versions, the images that contain them, and the layout.
package plan

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/golang"
	"kubeadm/components/internal/pins"
)

// Plan holds all parts that one release of Kubernetes needs, each with its key.
type Plan struct {
	root     string // the directory components/
	store    *cache.Store
	release  pins.Kubernetes
	compiler string // Go release and target
	packer   string // digest of the code that writes archives and bundles

	published *Published // nil: the programs are compiled

	programs []cache.Part // Kubernetes first, since it takes longest
	userland cache.Part   // the programs that kube-proxy calls
	archives []cache.Part
	bundle   cache.Part
}

// New reads the pins and sources under root, the directory components/, and computes all keys. The
// programs are downloaded if published is set, and compiled otherwise.
func New(ctx context.Context, root string, release pins.Kubernetes, store *cache.Store,
	published *Published) (*Plan, error) {
	p := &Plan{root: root, store: store, release: release, published: published}
	var err error
	if p.compiler, err = golang.Version(ctx); err != nil {
		return nil, err
	}
	if p.packer, err = cache.Sources(root, "go.mod", "go.sum", "internal/image/*.go", "internal/plan/*.go"); err != nil {
		return nil, err
	}
	// The userland comes first: it updates apt's package lists if necessary.
	if p.userland, err = p.userlandPart(ctx); err != nil {
		return nil, err
	}
	if p.programs, err = p.programParts(ctx); err != nil {
		return nil, err
	}
	p.archives = p.archiveParts()
	p.bundle = p.bundlePart()
	return p, nil
}

// Build builds the parts that are not in the cache and returns the directory of the bundle.
func (p *Plan) Build(ctx context.Context) (string, error) {
	first, second := slices.Clone(p.programs), slices.Clone(p.archives)
	// Kubernetes comes before kubelet-bootstrap, whose packages are then compiled already. Two runs of
	// the Go command at once would both compile them.
	i := slices.IndexFunc(first, func(part cache.Part) bool { return part.Name == bootstrapName })
	if i >= 0 {
		second = append(second, first[i])
		first = slices.Delete(first, i, i+1)
	}
	for _, stage := range [][]cache.Part{append(first, p.userland), second, {p.bundle}} {
		if err := p.buildAll(ctx, stage); err != nil {
			return "", err
		}
	}
	return p.store.Path(p.bundle), nil
}

// buildAll builds two parts at a time: while one downloads or links, the other compiles.
func (p *Plan) buildAll(ctx context.Context, parts []cache.Part) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for _, part := range parts {
		g.Go(func() error { return p.store.Build(ctx, part) })
	}
	return g.Wait()
}

// file is a path in a program's finished part.
func (p *Plan) file(program, name string) string {
	return filepath.Join(p.store.Path(p.program(program)), name)
}

func (p *Plan) program(name string) cache.Part {
	i := slices.IndexFunc(p.programs, func(part cache.Part) bool { return part.Name == name })
	return p.programs[i]
}

// partKeys returns the names and keys of parts, as inputs of a part that is built from them.
func partKeys(parts ...cache.Part) []string {
	var all []string
	for _, part := range parts {
		all = append(all, part.Name, string(part.Key))
	}
	return all
}

const arch = runtime.GOARCH
