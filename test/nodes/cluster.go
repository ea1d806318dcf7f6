// Package nodes creates sandboxed hosts for tests: Debian with systemd, containerd and a kubelet
// unit, each in namespaces and control groups of its own, connected by a switch without a link to
// other networks.
package nodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Options say what a cluster's nodes are made of.
type Options struct {
	Name    string      // of the cluster, unique on this machine; empty: a random one
	Bundle  string      // directory of the components bundle
	Older   []string    // directories of the bundles of older releases, see UseRelease
	Kubeadm string      // program to install as /usr/bin/kubeadm on every node; empty: none
	Keep    func() bool // reports to Close whether to leave the nodes for inspection; nil: never

	Families Families // of the nodes' addresses

	// Log is called for slow steps and for nodes that were kept; may be nil.
	Log func(format string, args ...any)
}

// KeepFailed is an Options.Keep for tests: it leaves a failed test's nodes if KEEP=failure is set
// in the environment.
func KeepFailed(t interface{ Failed() bool }) func() bool {
	return func() bool { return t.Failed() && os.Getenv("KEEP") == "failure" }
}

// Cluster is a set of nodes on one switch.
type Cluster struct {
	name    string
	dir     string
	log     func(string, ...any)
	keep    func() bool
	release func()

	mu       sync.Mutex
	record   record
	nodes    []*Node
	balancer *Balancer
}

// NewCluster creates a cluster without nodes. It first removes clusters that killed processes left
// behind. The first call on a machine installs missing tools, builds the base system and loads the
// images, which takes about two minutes.
func NewCluster(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Name == "" {
		var b [4]byte
		rand.Read(b[:])
		o.Name = "t" + hex.EncodeToString(b[:])
	}
	if err := InstallTools(ctx, o.Log); err != nil {
		return nil, err
	}
	if err := raiseInotifyLimit(o.Log); err != nil {
		return nil, err
	}
	bundle, err := filepath.Abs(o.Bundle)
	if err != nil {
		return nil, err
	}
	image, err := buildNodeImage(ctx, bundle, o.Log)
	for _, older := range o.Older {
		if err == nil {
			image, err = addRelease(ctx, image, older, o.Log)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("building the node image: %w", err)
	}
	dir, release, err := claimClusterDir(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	c := &Cluster{name: o.Name, dir: dir, log: o.Log, keep: o.Keep, release: release}
	c.record = record{Bundle: bundle, Families: o.Families,
		Layers: append([]string{c.layer()}, image.layers...), Store: image.containerd}
	if err := c.createFiles(ctx, o.Kubeadm); err != nil {
		return nil, errors.Join(fmt.Errorf("creating cluster %s: %w", o.Name, err),
			c.remove(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// layer is the top read-only layer of the cluster's nodes, with this cluster's own files.
func (c *Cluster) layer() string { return filepath.Join(c.dir, "layer") }

func (c *Cluster) hostsFile() string { return filepath.Join(c.dir, "hosts") }

func (c *Cluster) createFiles(ctx context.Context, kubeadm string) error {
	for _, dir := range []string{c.layer(), filepath.Join(c.dir, "nodes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if kubeadm != "" {
		if err := copyFile(kubeadm, filepath.Join(c.layer(), "usr/bin/kubeadm")); err != nil {
			return err
		}
	}
	if err := c.writeHosts(); err != nil {
		return err
	}
	if err := c.createSwitch(ctx); err != nil {
		return err
	}
	return c.save()
}

// Open opens a cluster that another process created and kept.
func Open(name string) (*Cluster, error) {
	dir := filepath.Join(stateRoot, name)
	r, err := loadRecord(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no cluster %q; create one with make cluster", name)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{name: name, dir: dir, log: func(string, ...any) {}, record: r}
	for _, n := range r.Nodes {
		c.nodes = append(c.nodes, c.node(n.Name, n.Addresses))
	}
	return c, nil
}

// Name is the cluster's name on this machine.
func (c *Cluster) Name() string { return c.name }

// Dir is the cluster's directory. It is removed with the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Bundle is the directory of the components on the nodes.
func (c *Cluster) Bundle() string { return c.record.Bundle }

// Node returns the node of that name, nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes() {
		if n.name == name {
			return n
		}
	}
	return nil
}

// Nodes returns all nodes, running or not, in the order in which they were added.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

func (c *Cluster) node(name string, addresses []string) *Node {
	return &Node{cluster: c, name: name, addresses: addresses,
		dir: filepath.Join(c.dir, "nodes", name)}
}

// Keep lets the cluster outlive this process: it stays until it is removed with Remove.
func (c *Cluster) Keep() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Kept = true
	return c.save()
}

// Close removes the cluster, and fails if something of it is left. If Options.Keep returns true,
// it keeps the cluster instead and logs how to inspect and how to remove it.
func (c *Cluster) Close() error {
	if c.keep == nil || !c.keep() {
		return c.remove(context.Background())
	}
	defer c.releaseAll()
	var names []string
	for _, n := range c.Nodes() {
		names = append(names, n.name)
	}
	c.log("cluster %s is kept: %s", c.name, strings.Join(names, " "))
	c.log("inspect: go run ./test/nodes/cluster shell --name %s NODE", c.name)
	c.log("remove:  go run ./test/nodes/cluster down --name %s", c.name)
	if len(c.record.Backends) > 0 {
		c.log("its load balancer stops with this process; restart it: go run ./test/nodes/cluster balance --name %s", c.name)
	}
	return c.Keep()
}

func (c *Cluster) releaseAll() {
	if c.balancer != nil {
		c.balancer.Close()
	}
	if c.release != nil {
		c.release()
	}
}

func (c *Cluster) remove(ctx context.Context) error {
	unlock, err := lockFile(ctx, registryLock)
	if err != nil {
		return err
	}
	defer unlock()
	defer c.releaseAll()
	if err := destroyCluster(ctx, c.name); err != nil {
		return fmt.Errorf("removing cluster %s: %w", c.name, err)
	}
	left, err := Leftovers(c.name)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("removing cluster %s left:\n  %s", c.name, strings.Join(left, "\n  "))
	}
	return nil
}

// Remove removes the cluster of that name in any state, unless a running process uses it.
func Remove(ctx context.Context, name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("there is no cluster %q", name)
	}
	dir := filepath.Join(stateRoot, name)
	release, free, err := lockClusterDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		release = nil // Control groups may be left.
	case err != nil:
		return err
	case !free:
		return fmt.Errorf("cluster %s is in use by a running process; stop that first", name)
	}
	c := &Cluster{name: name, dir: dir, release: release}
	return c.remove(ctx)
}
