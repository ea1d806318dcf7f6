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

// stateRoot holds a directory per cluster. It is the same for all users of this machine, so that
// all find the same clusters. It must not be on an overlay file system: containerd's layers are
// below it.
const stateRoot = "/var/lib/kubeadm-nodes"

// registryLock is held while clusters are created and removed.
const registryLock = "/run/lock/kubeadm-nodes.lock"

// record is the state of a cluster that other processes need; it is stored in the cluster's
// directory.
type record struct {
	Bundle string `json:"bundle"`
	Kept   bool   `json:"kept"` // outlives the process that created it

	Families Families `json:"families,omitempty"`

	Layers []string     `json:"layers"`
	Store  string       `json:"store"`
	Nodes  []nodeRecord `json:"nodes"`
	Last   int          `json:"last"` // the highest host number that was used

	Backends []string `json:"backends,omitempty"` // of the load balancer

	Names map[string]string `json:"names,omitempty"` // addresses of further names, such as of an endpoint
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

// claimClusterDir creates the cluster's directory and locks it until release is called or this
// process ends. It first removes abandoned clusters.
func claimClusterDir(ctx context.Context, name string) (dir string, release func(), err error) {
	if !clusterName.MatchString(name) {
		return "", nil, fmt.Errorf(
			"cluster name %q: want up to 31 lower-case letters, digits and hyphens, not beginning with a hyphen", name)
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
		return "", nil, fmt.Errorf(
			"cluster %s already exists; remove it with make cluster-down or choose another name",
			name)
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

// lockClusterDir locks a cluster's directory for this process, unless another process has locked
// it.
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

// removeAbandoned removes clusters that no process has locked and that are not kept. The caller
// holds the registry lock.
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
			return fmt.Errorf("removing cluster %s, which a killed process left behind: %w", name,
				err)
		}
	}
	return nil
}

// ListClusters lists the clusters of this machine: those with a directory, and those of which only
// control groups are left.
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

// destroyCluster removes everything of a cluster, however little of it is left. The caller holds
// the registry lock, so that shared directories are not removed while another cluster is created.
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
	// The directories that clusters share are removed if they are empty.
	os.Remove(stateRoot)
	if all, err := listHierarchies(); err == nil {
		for _, h := range all {
			unix.Rmdir(filepath.Join(h.path, cgroupName))
		}
	}
	return nil
}

// Leftovers lists what is left of a cluster on this machine: processes, control groups, mounts and
// files. It is empty after Close.
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

// mountsLeft lists a process that still has a mount of or in the directory.
func mountsLeft(pid, dir string) []string {
	mounts, err := mountsOf(pid)
	if err != nil {
		return nil // The process has exited meanwhile.
	}
	for _, m := range mounts {
		refers := func(option string) bool { return strings.Contains(option, dir+"/") }
		if strings.HasPrefix(m.path, dir+"/") || slices.ContainsFunc(m.options, refers) {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			return []string{fmt.Sprintf("mount %s, seen by process %s (%s)", m.path, pid,
				strings.TrimSpace(string(name)))}
		}
	}
	return nil
}
