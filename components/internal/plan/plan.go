// Package plan says what a bundle is made of: which programs are compiled or downloaded, in which pinned versions,
// which images hold them, and how the finished bundle is laid out.
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

// Plan is everything that one release of Kubernetes needs, each piece with its key.
type Plan struct {
	root     string // the directory components/
	store    *cache.Store
	release  pins.Kubernetes
	compiler string // which Go, for which system
	packer   string // digest of the code that shapes archives and bundles

	published *Published // downloads instead of compiling; nil to compile

	programs []cache.Part // Kubernetes first, since it takes longest
	userland cache.Part   // what kube-proxy calls
	archives []cache.Part
	bundle   cache.Part
}

// New reads the pins and sources under root, the directory components/, and computes every key. With published
// the programs are downloaded, else compiled.
func New(ctx context.Context, root string, release pins.Kubernetes, store *cache.Store, published *Published) (*Plan, error) {
	p := &Plan{root: root, store: store, release: release, published: published}
	var err error
	if p.compiler, err = golang.Version(ctx); err != nil {
		return nil, err
	}
	if p.packer, err = cache.Sources(root, "go.mod", "go.sum", "internal/image/*.go", "internal/plan/*.go"); err != nil {
		return nil, err
	}
	// The userland comes first: it sees to it that apt knows what packages there are.
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

// Build makes whatever the cache lacks and returns the directory of the bundle.
func (p *Plan) Build(ctx context.Context) (string, error) {
	for _, stage := range [][]cache.Part{append(slices.Clone(p.programs), p.userland), p.archives, {p.bundle}} {
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

// partKeys are the keys of parts, as inputs of something made from them.
func partKeys(parts ...cache.Part) []string {
	var all []string
	for _, part := range parts {
		all = append(all, part.Name, string(part.Key))
	}
	return all
}

const arch = runtime.GOARCH
