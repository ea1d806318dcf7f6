// Package preview is a world in which changes do not happen: reads fall through to
// the real world unless this run "changed" what is read; changes are kept in memory, and files
// also in a folder for the user to look at; waits for what this run would bring about are over
// at once. Whoever runs in it cannot tell.
package preview

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// World reads through to the real world and keeps every change to itself.
type World struct {
	world.World // the real one: read, and altered only below dir
	dir         string
	paths       Paths
	over        *memory.World
	believed    *memory.World // what others would do in answer to what this run does

	mu   sync.Mutex
	gone []string        // files and folders "removed": nothing below them shows through
	set  map[string]bool // targets "changed", and the marks below
	pods []change.RemoveContainers
	info map[string]string // cluster-info of a simulated cluster; nil where a real one is read

	fetched map[string][]byte // by URL, what the web servers of discovery files show for a simulated cluster
}

// Marks of what happened in a preview besides changes.
const (
	membersRead = "members" // the etcd members are in the overlay
	waited      = "waited"  // something was waited for: it is believed to have come about
	gaveRights  = "rights"  // a cluster-wide binding was "made"
)

// Paths says where the files of a machine are, so that what is made of them can be made believe.
type Paths struct {
	Node               string // name of this machine's Node object
	Certificates       string // kept as a tree below the folder; all other files lie flat in it
	KubeletConfig      string
	BootstrapConfig    string // the kubelet trades it for KubeletKubeconfig
	KubeletKubeconfig  string
	RotatedCert        string // what the kubelet keeps its client certificate in
	OwnServer, OwnEtcd string // manifests of the API server and the etcd of this machine; empty if it is a worker
}

// New previews on top of real and keeps copies of files below dir.
func New(real world.World, dir string, p Paths) *World {
	over := memory.New()
	over.Clock = real.Now // what was written in truth and what only here are compared
	return &World{World: real, dir: dir, paths: p, over: over, believed: memory.New(), set: map[string]bool{}}
}

// Do keeps the change to this preview.
func (w *World) Do(ctx context.Context, c change.Change) error {
	if err := w.bring(ctx, c); err != nil {
		return err
	}
	if err := w.over.Do(ctx, c); err != nil {
		return err
	}
	w.mark(c.Target())
	switch c := c.(type) {
	case change.WriteFile:
		return w.keep(ctx, c)
	case change.MakeDir:
		w.forgetRemoval(c.Path)
	case change.Remove:
		w.removed(c)
	case change.RemoveContainers:
		w.mu.Lock()
		w.pods = append(w.pods, c)
		w.mu.Unlock()
	case change.SetService:
		return w.startKubelet(ctx, c)
	case change.ApplyObject:
		if state.RefOf(c.Object, c.As).GVK.Kind == "ClusterRoleBinding" {
			w.mark(gaveRights)
		}
	}
	return nil
}

// Await is over at once: what a preview waits for would be the work of others in answer to its
// own. Only what does not depend on this run is waited for in earnest.
func (w *World) Await(ctx context.Context, c world.Condition) error {
	switch {
	case c.Outside && w.simulatedInfo() != nil:
		return c.Check(ctx, w)
	case c.Outside:
		return w.World.Await(ctx, c)
	case !w.mark(waited):
		return nil
	}
	return w.registerNode(ctx)
}

// ReadFile reads what this preview "wrote", or else the real file.
func (w *World) ReadFile(ctx context.Context, name string) ([]byte, error) {
	data, err := w.over.ReadFile(ctx, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if w.isGone(name) {
		return nil, err
	}
	return w.World.ReadFile(ctx, name)
}

// Stat looks at what this preview "wrote", or else at the real file.
func (w *World) Stat(ctx context.Context, name string) (state.FileInfo, error) {
	return w.look(ctx, name, w.World.Stat)
}

// Lstat is Stat of the link itself, if the path names one.
func (w *World) Lstat(ctx context.Context, name string) (state.FileInfo, error) {
	return w.look(ctx, name, w.World.Lstat)
}

type stat = func(ctx context.Context, name string) (state.FileInfo, error)

func (w *World) look(ctx context.Context, name string, below stat) (state.FileInfo, error) {
	info, err := w.over.Stat(ctx, name)
	given := w.has(change.SetOwner{Path: name}.Target())
	if err == nil && (!info.Mode.IsDir() || given) || w.isGone(name) {
		return info, err
	}
	real, rerr := below(ctx, name)
	if rerr != nil && err == nil {
		return info, nil
	}
	return real, rerr
}

// ReadDir lists the real folder with what this preview "wrote" and without what it "removed".
func (w *World) ReadDir(ctx context.Context, name string) ([]state.FileInfo, error) {
	mine, err := w.over.ReadDir(ctx, name)
	all := map[string]state.FileInfo{}
	if !w.isGone(name) {
		real, rerr := w.World.ReadDir(ctx, name)
		if errors.Is(err, fs.ErrNotExist) || !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		for _, f := range real {
			if !w.isGone(f.Path) {
				all[f.Path] = f
			}
		}
	}
	for _, f := range mine {
		all[f.Path] = f
	}
	return slices.SortedFunc(maps.Values(all), func(a, b state.FileInfo) int { return strings.Compare(a.Path, b.Path) }), err
}

// Service tells the state a unit would be in.
func (w *World) Service(ctx context.Context, name string) (state.Service, error) {
	s, err := w.World.Service(ctx, name)
	if err != nil || !w.has(change.SetService{Name: name}.Target()) {
		return s, err
	}
	over, err := w.over.Service(ctx, name)
	s.Active, s.Since = over.Active, over.Since
	return s, err
}

// Mounts lists what would still be mounted.
func (w *World) Mounts(ctx context.Context, dir string) ([]string, error) {
	all, err := w.World.Mounts(ctx, dir)
	return slices.DeleteFunc(all, w.unmounted), err
}

func (w *World) unmounted(point string) bool {
	for point != "/" {
		point = path.Dir(point)
		if w.has(change.Unmount{Below: point}.Target()) {
			return true
		}
	}
	return false
}

// Image tells whether the runtime would hold an image.
func (w *World) Image(ctx context.Context, socket, ref string) (bool, error) {
	if w.has(change.PullImage{Ref: ref}.Target()) {
		return true, nil
	}
	return w.World.Image(ctx, socket, ref)
}

// Sandboxes lists the Pod sandboxes that would be left.
func (w *World) Sandboxes(ctx context.Context, socket string) ([]state.Sandbox, error) {
	left, err := w.World.Sandboxes(ctx, socket)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.pods {
		left = slices.DeleteFunc(left, c.Wants)
	}
	return left, err
}

// mark tells whether it was the first to do so.
func (w *World) mark(what string) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = !w.set[what]
	w.set[what] = true
	return first
}

func (w *World) has(target string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set[target]
}

func (w *World) removed(c change.Remove) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := path.Clean(c.Path)
	if c.Contents {
		name += "/"
	}
	w.gone = append(w.gone, name)
}

func (w *World) forgetRemoval(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = slices.DeleteFunc(w.gone, func(g string) bool { return g == path.Clean(name) })
}

func (w *World) isGone(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name = path.Clean(name)
	return slices.ContainsFunc(w.gone, func(g string) bool {
		return name == g || strings.HasPrefix(name, strings.TrimSuffix(g, "/")+"/")
	})
}
