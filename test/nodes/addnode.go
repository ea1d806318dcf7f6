package nodes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Add creates a node and boots it. On return containerd is ready and the images are loaded. It may
// be called concurrently.
func (c *Cluster) Add(ctx context.Context, name string) (*Node, error) {
	n, err := c.register(name)
	if err != nil {
		return nil, err
	}
	return n, n.createAndBoot(ctx)
}

// AddAt is Add with a given address, which no other node may have.
func (c *Cluster) AddAt(ctx context.Context, name, address string) (*Node, error) {
	n, err := c.registerAt(name, address)
	if err != nil {
		return nil, err
	}
	return n, n.createAndBoot(ctx)
}

// AddAll adds several nodes concurrently, with addresses in the order of the names.
func (c *Cluster) AddAll(ctx context.Context, names ...string) ([]*Node, error) {
	var added []*Node
	for _, name := range names {
		n, err := c.register(name)
		if err != nil {
			return nil, err
		}
		added = append(added, n)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range added {
		group.Go(func() error { return n.createAndBoot(ctx) })
	}
	return added, group.Wait()
}

// register records a node with an address that no node has had yet, and adds it to /etc/hosts of
// all nodes.
func (c *Cluster) register(name string) (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := max(firstHost, c.record.Last+1)
	if next > lastHost {
		return nil, fmt.Errorf("adding node %s: no address is left after %d nodes", name,
			lastHost-firstHost+1)
	}
	return c.addRecord(name, next)
}

func (c *Cluster) registerAt(name, address string) (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for host := firstHost; host <= lastHost; host++ {
		if c.record.Families.hostAddresses(host)[0] == address {
			return c.addRecord(name, host)
		}
	}
	first, last := c.record.Families.hostAddresses(firstHost)[0],
		c.record.Families.hostAddresses(lastHost)[0]
	return nil, fmt.Errorf("adding node %s: want an address from %s to %s, not %q", name, first,
		last, address)
}

// addRecord records a node. Its name and host number must be free. The caller holds the lock.
func (c *Cluster) addRecord(name string, host int) (*Node, error) {
	if !nodeName.MatchString(name) {
		return nil, fmt.Errorf("node name %q: want a host name without dots (RFC 1123)", name)
	}
	n := c.node(name, c.record.Families.hostAddresses(host))
	for _, other := range c.record.Nodes {
		if strings.EqualFold(other.Name, name) || other.Addresses[0] == n.Address() {
			return nil, fmt.Errorf("adding node %s with address %s: there is %s with address %s",
				name, n.Address(), other.Name, other.Addresses[0])
		}
	}
	c.record.Nodes = append(c.record.Nodes, nodeRecord{Name: name, Addresses: n.addresses})
	c.record.Last = max(c.record.Last, host)
	c.nodes = append(c.nodes, n)
	if err := c.writeHosts(); err != nil {
		return nil, err
	}
	return n, c.save()
}

// DestroyNode powers a node off and deletes its disk. Its name and address can be used again.
func (c *Cluster) DestroyNode(ctx context.Context, n *Node) error {
	if err := n.Kill(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(n.dir); err != nil {
		return fmt.Errorf("destroying node %s: %w", n.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(other *Node) bool { return other == n })
	c.record.Nodes = slices.DeleteFunc(c.record.Nodes,
		func(r nodeRecord) bool { return r.Name == n.name })
	if err := c.writeHosts(); err != nil {
		return err
	}
	return c.save()
}

// SetName makes a name resolve to a node's address on all nodes. It stays if the node is destroyed.
func (c *Cluster) SetName(name string, n *Node) error { return c.SetNameAt(name, n.Address()) }

// SetNameAt makes a name resolve to an address on all nodes, such as that of the load balancer.
func (c *Cluster) SetNameAt(name, address string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Names == nil {
		c.record.Names = make(map[string]string)
	}
	c.record.Names[name] = address
	if err := c.writeHosts(); err != nil {
		return err
	}
	return c.save()
}

// writeHosts writes the file that is /etc/hosts on all nodes, in place, since it is mounted.
func (c *Cluster) writeHosts() error {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	for _, n := range c.record.Nodes {
		for _, address := range n.Addresses {
			fmt.Fprintf(&b, "%s %s\n", address, n.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.record.Names)) {
		fmt.Fprintf(&b, "%s %s\n", c.record.Names[name], name)
	}
	return os.WriteFile(c.hostsFile(), []byte(b.String()), 0o644)
}
