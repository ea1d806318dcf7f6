package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupName is the control group, in every hierarchy, below which clusters have theirs:
// kubeadm-nodes/CLUSTER/NODE.
const cgroupName = "kubeadm-nodes"

// hierarchy is a mounted control group hierarchy: one of several of cgroup v1, or the one of
// cgroup v2.
type hierarchy struct {
	path    string
	unified bool     // v2
	options []string // v1: the controllers
}

// listHierarchies lists this machine's hierarchies, the one that is best for finding processes
// first.
func listHierarchies() ([]hierarchy, error) {
	mounts, err := mountsOf("self")
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	for _, m := range mounts {
		if m.kind == "cgroup" || m.kind == "cgroup2" {
			found = append(found,
				hierarchy{path: m.path, unified: m.kind == "cgroup2", options: m.options})
		}
	}
	if len(found) == 0 {
		return nil, errors.New(
			"no control group hierarchy is mounted on this machine (see cgroups(7))")
	}
	// systemd moves processes within its own hierarchy; in "pids" all processes of a node that are
	// in no container stay in the node's group.
	rank := func(h hierarchy) int {
		switch {
		case slices.Contains(h.options, "pids"):
			return 2
		case h.unified:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(a, b hierarchy) int { return rank(b) - rank(a) })
	return found, nil
}

// createGroups creates the group of a cluster, or of a node in it, in every hierarchy and returns
// the directories.
func createGroups(path ...string) ([]string, error) {
	all, err := listHierarchies()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, h := range all {
		dir := h.path
		for _, name := range append([]string{cgroupName}, path...) {
			// In v2 the parent must delegate controllers; the node's systemd does that in the
			// node's group.
			if h.unified && len(all) == 1 {
				if err := delegateControllers(dir); err != nil {
					return nil, err
				}
			}
			dir = filepath.Join(dir, name)
			if err := h.createGroup(dir); err != nil {
				return nil, fmt.Errorf("creating control group %s: %w", dir, err)
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

func (h hierarchy) createGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !slices.Contains(h.options, "cpuset") {
		return nil
	}
	// A new cpuset has no CPUs and no memory nodes, and accepts no process until both are set.
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.clone_children"), []byte("1"), 0o644)
}

func delegateControllers(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(have)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller),
			0o644); err != nil {
			return fmt.Errorf("delegating the %s controller in %s: %w", controller, dir, err)
		}
	}
	return nil
}

// AddProcess adds a process of this machine to the cluster, so that it is killed when the cluster
// is removed.
func (c *Cluster) AddProcess(pid int) error {
	// No node name ends with a hyphen.
	dirs, err := createGroups(c.name, "adopted-")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)),
			0o644); err != nil {
			return fmt.Errorf("adding process %d to cluster %s: %w", pid, c.name, err)
		}
	}
	return nil
}

// Group is a control group beside those of a cluster's nodes, with a share of the CPUs of its own.
type Group struct{ procs string }

// CreateGroup creates a group for programs on nodes. While the CPUs are busy, all its processes together
// get this percentage of the CPU time of one node.
func (c *Cluster) CreateGroup(name string, percent int) (*Group, error) {
	// No node name ends with a hyphen.
	dirs, err := createGroups(c.name, name+"-")
	if err != nil {
		return nil, err
	}
	// What a new group has by default, in cgroup v1 and v2.
	for file, whole := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} {
		for _, dir := range dirs {
			file := filepath.Join(dir, file)
			if _, err := os.Stat(file); err != nil {
				continue
			}
			share := strconv.Itoa(whole * percent / 100)
			if err := os.WriteFile(file, []byte(share), 0o644); err != nil {
				return nil, fmt.Errorf("limiting the CPU time of group %s: %w", name, err)
			}
			return &Group{procs: filepath.Join(dir, "cgroup.procs")}, nil
		}
	}
	return nil, errors.New("no control group hierarchy of this machine has the CPU controller")
}

// listGroups returns all groups below path (CLUSTER or CLUSTER/NODE), in every hierarchy, children
// before their parents.
func listGroups(path string) ([]string, error) {
	all, err := listHierarchies()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, h := range all {
		err := filepath.WalkDir(filepath.Join(h.path, cgroupName, path),
			func(dir string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err == nil && d.IsDir() {
					dirs = append(dirs, dir)
				}
				return err
			})
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(dirs)
	return dirs, nil
}

// listProcesses lists the processes in these groups.
func listProcesses(dirs []string) []int {
	var pids []int
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // The group is gone, and its processes too.
		}
		for _, field := range strings.Fields(string(data)) {
			// Zero is a process of a PID namespace that is not visible from here.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// removeGroups kills everything in the groups of CLUSTER or CLUSTER/NODE and removes them.
func removeGroups(ctx context.Context, path string) error {
	return pollUntil(ctx, "all processes of "+path+" to end", pollLimit,
		func(context.Context) error {
			dirs, err := listGroups(path)
			if err != nil {
				return err
			}
			pids := listProcesses(dirs)
			for _, pid := range pids {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					return fmt.Errorf("killing process %d: %w", pid, err)
				}
			}
			if len(pids) > 0 {
				return fmt.Errorf("still running: processes %v", pids)
			}
			for _, dir := range dirs {
				if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
					return fmt.Errorf("removing control group %s: %w", dir, err)
				}
			}
			return nil
		})
}

// findInit returns this machine's PID of the node's init process, 0 if the node is not running.
// The init process of a container is nested in one more PID namespace.
func findInit(cluster, node string) (int, error) {
	all, err := listHierarchies()
	if err != nil {
		return 0, err
	}
	var found int
	top := filepath.Join(all[0].path, cgroupName, cluster, node)
	err = filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		for _, pid := range listProcesses([]string{dir}) {
			if ids := namespacePIDs(pid); len(ids) == 2 && ids[1] == "1" {
				found = pid
				return fs.SkipAll
			}
		}
		return nil
	})
	return found, err
}

func namespacePIDs(pid int) []string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(ids)
		}
	}
	return nil
}
