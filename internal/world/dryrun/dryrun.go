// Package dryrun is a world in which changes do not happen: reads return the real state unless
// this run "changed" it; changes are kept in memory, and files also as copies in a directory;
// waits for the results of this run end at once. A phase cannot tell that it runs in a dry run.
package dryrun

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/simkubelet"
)

// World reads through to the real world and keeps every change to itself.
type World struct {
	world.World // the real one: read, and altered only below dir
	dir         string
	paths       Paths
	overlay     *memory.World
	simulated   *memory.World // what the kubelet would do, and a simulated cluster
	kubelet     simkubelet.Kubelet

	mu           sync.Mutex
	removedPaths []string        // files and directories "removed": nothing real below them is read
	marks        map[string]bool // targets "changed", and the marks below
	restored     int64           // the revision of etcd's data that were "restored"; 0 if none were
	removedPods  []change.RemoveContainers
	servers      []change.RemoveVirtualServers // removed from IPVS
	deadRuntime  bool                          // the container runtime does not answer
	liveness     sync.Mutex                    // held while an API server is asked
	live         map[string]bool               // by identity, whether the API server answered after it was waited for
	// cluster-info of a simulated cluster; nil where a real one is read
	clusterInfo map[string]string

	// by URL, what the web servers of discovery files show for a simulated cluster
	discoveryFiles map[string][]byte
}

// Marks of what happened in a dry run besides changes.
const (
	membersRead      = "members" // the etcd members are in the overlay
	waited           = "waited"  // something was waited for, and counts as having happened
	boundClusterRole = "rights"  // a ClusterRoleBinding was "created"
)

// Paths are the files of a machine that a dry run needs to simulate its kubelet.
type Paths struct {
	Node string // name of this machine's Node object
	// copied with their directories; all other files are copied to the top directory
	Certificates        string
	KubeletConfig       string
	BootstrapKubeconfig string // the kubelet exchanges it for KubeletKubeconfig
	KubeletKubeconfig   string
	KubeletClientCert   string // the kubelet's client certificate
	// manifests of the API server and the etcd of this machine; empty if it is a worker
	APIServerManifest, EtcdManifest string
}

// New returns a world for a dry run on top of real and copies files to dir, unless it is empty.
func New(real world.World, dir string, p Paths) *World {
	over := memory.New()
	over.Clock = real.Now // times of real files and of those in the overlay are compared
	return &World{World: real, dir: dir, paths: p, overlay: over, simulated: memory.New(),
		marks: map[string]bool{}, live: map[string]bool{}, kubelet: simkubelet.Kubelet{
			Node: p.Node, BootstrapConfig: p.BootstrapKubeconfig,
			Kubeconfig: p.KubeletKubeconfig, RotatedCert: p.KubeletClientCert}}
}

// Do makes the change in the overlay.
func (w *World) Do(ctx context.Context, c change.Change) error {
	if pair, ok := c.(change.WriteKeyPair); ok {
		if err := pair.Cert.CheckSecret(); err != nil {
			return err
		}
		if err := w.Do(ctx, pair.Key); err != nil {
			return err
		}
		return w.Do(ctx, pair.Cert)
	}
	if err := w.copyToOverlay(ctx, c); err != nil {
		return err
	}
	if err := w.overlay.Do(ctx, c); err != nil {
		return err
	}
	w.mark(c.Target())
	switch c := c.(type) {
	case change.WriteFile:
		w.forgetRemoval(c.Path)
		if w.dir == "" || c.Placement != nil { // files of other machines may have one name, and another's mode
			return nil
		}
		// Certificates are copied with their directories, all else to the top directory, as
		// upstream's dry runs do.
		rest, ok := strings.CutPrefix(c.Path, w.paths.Certificates+"/")
		if !ok {
			rest = path.Base(c.Path)
		}
		c.Path = path.Join(w.dir, rest)
		return w.World.Do(ctx, c)
	case change.MakeDir:
		w.forgetRemoval(c.Path)
	case change.MakeLink:
		w.forgetRemoval(c.Path)
	case change.Remove:
		name := path.Clean(c.Path)
		if c.Contents {
			name += "/"
		}
		w.recordRemoval(name)
	case change.RestoreSnapshot:
		w.mu.Lock()
		w.restored = c.Revision
		w.mu.Unlock()
	case change.Rename:
		w.recordRemoval(path.Clean(c.From))
		w.forgetRemoval(c.To)
	case change.RemoveControlGroup:
		w.recordRemoval(path.Clean(c.Path))
	case change.SetModule:
		if c.Loaded {
			w.forgetRemoval(state.ModulePath(c.Name))
		} else {
			w.recordRemoval(state.ModulePath(c.Name))
		}
	case change.RemoveContainers:
		if c.KeepPod {
			return nil
		}
		return w.removePods(ctx, c)
	case change.RemoveVirtualServers:
		w.mu.Lock()
		w.servers = append(w.servers, c)
		w.mu.Unlock()
	case change.SetService:
		return w.startKubelet(ctx, c)
	case change.ApplyObject:
		if state.RefOf(c.Object, c.As).GVK.Kind == "ClusterRoleBinding" {
			w.mark(boundClusterRole)
		}
	}
	return nil
}

// Await ends at once: what a dry run waits for would be the result of its own changes. Only
// conditions that do not depend on this run are waited for.
func (w *World) Await(ctx context.Context, c world.Condition) error {
	switch {
	case c.External && w.simulatedInfo() != nil:
		return c.Check(ctx, w)
	case c.External:
		return w.World.Await(ctx, c)
	case !w.mark(waited):
		return nil
	}
	// The kubelet has registered its Node by now. A real Node comes before it.
	return w.simulated.Do(ctx, change.ApplyObject{Object: w.kubelet.NodeObject()})
}

// ReadFile reads what this dry run "wrote", or else the real file.
func (w *World) ReadFile(ctx context.Context, name string) ([]byte, error) {
	return readWith(ctx, w, name, w.overlay.ReadFile, w.World.ReadFile)
}

// ReadPrivate is ReadFile of a private file.
func (w *World) ReadPrivate(ctx context.Context, name string) ([]byte, error) {
	return readWith(ctx, w, name, w.overlay.ReadPrivate, w.World.ReadPrivate)
}

// OpenFile opens what this dry run "wrote", or else the real file.
func (w *World) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	return readWith(ctx, w, name, w.overlay.OpenFile, w.World.OpenFile)
}

// ReadSnapshot describes a snapshot that this dry run "saved", or else a real one.
func (w *World) ReadSnapshot(ctx context.Context, name string) (etcdsnapshot.Info, error) {
	return readWith(ctx, w, name, w.overlay.ReadSnapshot, w.World.ReadSnapshot)
}

// ReadDatabase describes a database that is on disk: a dry run starts no member.
func (w *World) ReadDatabase(ctx context.Context, name string) (etcdsnapshot.Info, error) {
	return readWith(ctx, w, name, w.overlay.ReadDatabase, w.World.ReadDatabase)
}

type read[T any] = func(ctx context.Context, name string) (T, error)

func readWith[T any](ctx context.Context, w *World, name string, overlay, below read[T]) (T, error) {
	data, err := overlay(ctx, name)
	if !errors.Is(err, fs.ErrNotExist) || w.isRemoved(name) {
		return data, err
	}
	return below(ctx, name)
}

// Stat describes what this dry run "wrote", or else the real file.
func (w *World) Stat(ctx context.Context, name string) (state.FileInfo, error) {
	return w.statWith(ctx, name, w.World.Stat)
}

// Lstat is Stat of the link itself, if the path names one.
func (w *World) Lstat(ctx context.Context, name string) (state.FileInfo, error) {
	return w.statWith(ctx, name, w.World.Lstat)
}

type stat = func(ctx context.Context, name string) (state.FileInfo, error)

func (w *World) statWith(ctx context.Context, name string, below stat) (state.FileInfo, error) {
	info, err := w.overlay.Stat(ctx, name)
	given := w.has(change.SetOwner{Path: name}.Target())
	if err == nil && (!info.Mode.IsDir() || given) || w.isRemoved(name) {
		return info, err
	}
	real, rerr := below(ctx, name)
	if rerr != nil && err == nil {
		return info, nil
	}
	return real, rerr
}

// ReadDir lists the real directory with what this dry run "wrote" and without what it "removed".
func (w *World) ReadDir(ctx context.Context, name string) ([]state.FileInfo, error) {
	mine, err := w.overlay.ReadDir(ctx, name)
	all := map[string]state.FileInfo{}
	if !w.isRemoved(name) {
		real, rerr := w.World.ReadDir(ctx, name)
		if errors.Is(err, fs.ErrNotExist) || !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		for _, f := range real {
			if !w.isRemoved(f.Path) {
				all[f.Path] = f
			}
		}
	}
	for _, f := range mine {
		all[f.Path] = f
	}
	return slices.SortedFunc(maps.Values(all),
		func(a, b state.FileInfo) int { return strings.Compare(a.Path, b.Path) }), err
}

// Service returns the state that a unit would have.
func (w *World) Service(ctx context.Context, name string) (state.Service, error) {
	s, err := w.World.Service(ctx, name)
	if err != nil {
		return s, err
	}
	over, err := w.overlay.Service(ctx, name)
	if w.has(change.SetService{Name: name}.Target()) {
		s.Active, s.Since = over.Active, over.Since
	}
	if w.has(change.EnableService{Name: name}.Target()) {
		s.Enabled = over.Enabled
	}
	return s, err
}

// Mounts lists what would still be mounted.
func (w *World) Mounts(ctx context.Context, dir string) ([]string, error) {
	all, err := w.World.Mounts(ctx, dir)
	return slices.DeleteFunc(all, func(point string) bool {
		if w.has(change.Unmount{Dir: point, Itself: true}.Target()) {
			return true
		}
		for point != "/" {
			point = path.Dir(point)
			if w.has(change.Unmount{Dir: point}.Target()) {
				return true
			}
		}
		return false
	}), err
}

// Image reports whether the container runtime would have an image.
func (w *World) Image(ctx context.Context, socket, ref string) (bool, error) {
	if w.has(change.PullImage{Ref: ref}.Target()) {
		return w.overlay.Image(ctx, socket, ref)
	}
	return w.World.Image(ctx, socket, ref)
}

// ImageRefs lists the images that the container runtime would still have.
func (w *World) ImageRefs(ctx context.Context, socket string) ([]string, error) {
	all, err := w.World.ImageRefs(ctx, socket)
	return slices.DeleteFunc(all, func(ref string) bool {
		return w.has(change.RemoveImage{Ref: ref}.Target())
	}), err
}

// Containers lists the real containers. A container runtime that does not answer has none: the checks
// before a change report it, and a dry run that goes on despite them changes nothing. It is asked once,
// as each question may take until its timeout.
func (w *World) Containers(ctx context.Context, socket string) ([]state.Container, error) {
	w.mu.Lock()
	isDead := w.deadRuntime
	w.mu.Unlock()
	if isDead {
		return nil, nil
	}
	all, err := w.World.Containers(ctx, socket)
	if err == nil || ctx.Err() != nil {
		return all, err
	}
	w.mu.Lock()
	w.deadRuntime = true
	w.mu.Unlock()
	world.ReportProgress(ctx, "containers are not shown, because they cannot be listed: %v", err)
	return nil, nil
}

// removePods records that Pods would be gone, and their network namespaces with them. The kubelet
// re-creates a static Pod whose manifest is there.
func (w *World) removePods(ctx context.Context, c change.RemoveContainers) error {
	if c.Component != "" && w.paths.EtcdManifest != "" {
		file := path.Join(path.Dir(w.paths.EtcdManifest), c.Component+".yaml")
		if _, err := w.Stat(ctx, file); err == nil {
			return nil
		}
	}
	all, err := w.World.Sandboxes(ctx, c.Socket)
	if err != nil {
		return err
	}
	networks, err := w.World.SandboxNetworks(ctx, c.Socket)
	if err != nil {
		return err
	}
	for _, s := range all {
		if file, ok := networks[s.ID]; ok && c.Matches(s) {
			w.recordRemoval(file)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removedPods = append(w.removedPods, c)
	return nil
}

// Sandboxes lists the Pod sandboxes that would be left.
func (w *World) Sandboxes(ctx context.Context, socket string) ([]state.Sandbox, error) {
	left, err := w.World.Sandboxes(ctx, socket)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.removedPods {
		left = slices.DeleteFunc(left, c.Matches)
	}
	return left, err
}

// mark reports whether the mark is new.
func (w *World) mark(what string) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = !w.marks[what]
	w.marks[what] = true
	return first
}

func (w *World) has(target string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marks[target]
}

func (w *World) recordRemoval(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removedPaths = append(w.removedPaths, name)
}

func (w *World) forgetRemoval(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removedPaths = slices.DeleteFunc(w.removedPaths,
		func(g string) bool { return g == path.Clean(name) })
}

func (w *World) isRemoved(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name = path.Clean(name)
	return slices.ContainsFunc(w.removedPaths, func(g string) bool {
		return name == g || strings.HasPrefix(name, strings.TrimSuffix(g, "/")+"/")
	})
}
