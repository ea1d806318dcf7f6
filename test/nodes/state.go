package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// stateRoot holds a directory per cluster. It is the same for all users of this machine, so that a cluster is found
// again by whoever looks, and must not be on an overlay file system: containerd's layers are below it.
const stateRoot = "/var/lib/kubeadm-nodes"

// registryLock is held while clusters are created and swept away.
const registryLock = "/run/lock/kubeadm-nodes.lock"

// record is what the next process needs to know of a cluster, kept in its directory.
type record struct {
	Bundle string `json:"bundle"`
	Kept   bool   `json:"kept"` // stays when its creator is gone

	Families Families `json:"families,omitempty"`

	Layers []string     `json:"layers"`
	Store  string       `json:"store"`
	Nodes  []nodeRecord `json:"nodes"`
	Last   int          `json:"last"` // the highest number that a node had as the end of its address

	Backends []string `json:"backends,omitempty"` // of the load balancer
}

type nodeRecord struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
	PodCIDRs  []string `json:"podCIDRs,omitempty"`
}

func (c *Cluster) save() error {
	data, err := json.MarshalIndent(c.record, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, "cluster.json")
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func loadRecord(dir string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("reading %s/cluster.json: %w", dir, err)
	}
	return r, nil
}

var (
	clusterName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)
	nodeName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
)

// claimClusterDir makes the cluster's directory and holds it until release is called or this process ends. Under the same lock
// it removes clusters whose creators ended without doing so.
func claimClusterDir(ctx context.Context, name string) (dir string, release func(), err error) {
	if !clusterName.MatchString(name) {
		return "", nil, fmt.Errorf("cluster name %q: want up to 31 small letters, digits and hyphens, the first not a hyphen", name)
	}
	unlock, err := lockFile(ctx, registryLock)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	if err := removeAbandoned(ctx); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(stateRoot, name)
	if _, err := os.Stat(dir); err == nil {
		return "", nil, fmt.Errorf("cluster %s exists already: remove it first (make cluster-down) or choose another name", name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	release, free, err := lockClusterDir(dir)
	if err == nil && !free {
		err = fmt.Errorf("directory %s is locked by another process", dir)
	}
	if err != nil {
		return "", nil, err
	}
	if _, err := createGroups(name); err != nil {
		release()
		return "", nil, err
	}
	return dir, release, nil
}

// lockClusterDir locks a cluster's directory for this process, unless another process has it.
func lockClusterDir(dir string) (release func(), free bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return func() { f.Close() }, true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, false, f.Close()
	default:
		f.Close()
		return nil, false, fmt.Errorf("locking %s: %w", dir, err)
	}
}

// removeAbandoned removes clusters that nobody holds and nobody asked to keep. The caller holds the registry lock.
func removeAbandoned(ctx context.Context) error {
	names, err := ListClusters()
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := filepath.Join(stateRoot, name)
		if r, err := loadRecord(dir); err == nil && r.Kept {
			continue
		}
		release, free, err := lockClusterDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			release, free, err = func() {}, true, nil
		}
		if err != nil {
			return err
		}
		if !free {
			continue
		}
		err = destroyCluster(ctx, name)
		release()
		if err != nil {
			return fmt.Errorf("removing cluster %s, left behind by a run that ended early: %w", name, err)
		}
	}
	return nil
}

// ListClusters lists the clusters of this machine: those with a directory, and those of which only control groups are left.
func ListClusters() ([]string, error) {
	all, err := listHierarchies()
	if err != nil {
		return nil, err
	}
	dirs := []string{stateRoot}
	for _, h := range all {
		dirs = append(dirs, filepath.Join(h.path, cgroupName))
	}
	var names []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && clusterName.MatchString(e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// destroyCluster removes all there is of a cluster by the names it is known to have, however little is left of it. The caller
// holds the registry lock, so that the directories which clusters share do not go while another one is being made.
func destroyCluster(ctx context.Context, name string) error {
	if err := removeGroups(ctx, name); err != nil {
		return err
	}
	dir := filepath.Join(stateRoot, name)
	if err := unmountBelow(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	removeSharedDirs()
	return nil
}

// removeSharedDirs takes away the directories that clusters share once there are no clusters.
func removeSharedDirs() {
	os.Remove(stateRoot)
	if all, err := listHierarchies(); err == nil {
		for _, h := range all {
			unix.Rmdir(filepath.Join(h.path, cgroupName))
		}
	}
}

// Leftovers lists what this machine still has of a cluster: processes, control groups, mounts and files. It is empty
// after Close.
func Leftovers(name string) ([]string, error) {
	var left []string
	dirs, err := listGroups(name)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		left = append(left, "control group "+dir)
	}
	for _, pid := range listProcesses(dirs) {
		left = append(left, fmt.Sprintf("process %d in a control group of the cluster", pid))
	}
	dir := filepath.Join(stateRoot, name)
	if _, err := os.Lstat(dir); err == nil {
		left = append(left, "directory "+dir)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") == "" {
			left = append(left, mountsLeft(e.Name(), dir)...)
		}
	}
	return left, nil
}

// mountsLeft reports a process that sees something mounted of or in the directory: a process of a node, or this machine's.
func mountsLeft(pid, dir string) []string {
	mounts, err := mountsOf(pid)
	if err != nil {
		return nil // The process has ended meanwhile.
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.path, dir+"/") || anyContains(m.options, dir+"/") {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			return []string{fmt.Sprintf("mount %s, seen by process %s (%s)", m.path, pid, strings.TrimSpace(string(name)))}
		}
	}
	return nil
}

func anyContains(options []string, text string) bool {
	return slices.ContainsFunc(options, func(option string) bool { return strings.Contains(option, text) })
}
