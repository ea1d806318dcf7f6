package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The range of host numbers, the last part of a node's addresses, and what is added to it in the address to which
// a node moves.
const (
	firstHost = 11
	lastHost  = 130
	moved     = 120
)

// newNamespace creates a network namespace that exists as long as it is mounted on the file.
func newNamespace(ctx context.Context, file string) error {
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return err
	}
	if _, err := runHost(ctx, "unshare", "--net="+file, "true"); err != nil {
		return fmt.Errorf("creating a network namespace: %w", err)
	}
	return nil
}

// runIPBatch runs commands of ip(8), one per line, in a network namespace.
func runIPBatch(ctx context.Context, namespace string, lines ...string) error {
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+namespace, "ip", "-batch", "-")
	_, err := runCaptured(cmd, strings.Join(lines, "\n")+"\n")
	return err
}

func (c *Cluster) switchFile() string { return filepath.Join(c.dir, "switch") }

// createSwitch creates the switch, a network namespace with a bridge in it, without a link to this
// machine's network or to another cluster's. So all clusters can use the same addresses. The
// bridge is also the gateway of all nodes, and rejects packets without a route: if it dropped a
// packet, say to a Service before kube-proxy knows it, a connection would hang for half a minute.
func (c *Cluster) createSwitch(ctx context.Context) error {
	if err := newNamespace(ctx, c.switchFile()); err != nil {
		return err
	}
	// By default a bridge has the lowest MAC address of its ports, and changes it when that node
	// is removed: then nodes cannot reach the gateway and the load balancer until their ARP
	// entries are updated.
	lines := []string{"link set lo up",
		"link add br0 address 02:00:0a:4d:00:01 type bridge forward_delay 0", "link set br0 up"}
	for _, f := range c.record.Families.all() {
		if err := writeSysctls(ctx, c.switchFile(), f.forward+"; "+f.refuse); err != nil {
			return err
		}
		lines = append(append(lines, addressCommands("br0", f.gateway)...),
			"route add unreachable "+f.anywhere)
	}
	return runIPBatch(ctx, c.switchFile(), lines...)
}

// writeSysctls runs a script that writes to /proc/sys/net, which belongs to the network namespace
// of the process.
func writeSysctls(ctx context.Context, namespace, script string) error {
	_, err := runHost(ctx, "nsenter", "--net="+namespace, "sh", "-ec", script)
	return err
}

func (n *Node) netFile() string { return filepath.Join(n.dir, "net") }

// linkName is the name of the node's link in the switch's namespace.
func (n *Node) linkName() string { return fmt.Sprintf("port-%d", n.number()) }

// number is the node's host number, the last part of each of the addresses that it was created with.
func (n *Node) number() (host int) {
	fmt.Sscanf(n.Address(), familyOf(n.Address()).node, &host)
	if host > lastHost {
		host -= moved
	}
	return host
}

// AddAddress gives the node a second address, to which it can move. The node has it until it boots again.
func (n *Node) AddAddress(ctx context.Context) (string, error) {
	address := fmt.Sprintf(familyOf(n.Address()).node, n.number()+moved)
	return address, runIPBatch(ctx, n.netFile(), addressCommands("eth0", address)...)
}

// MoveTo makes an address that of the node, in place of the first one. Its name leads there; the routes to its Pods do
// after PodNetwork.
func (n *Node) MoveTo(ctx context.Context, address string) error {
	before := n.Address()
	if err := writeSysctls(ctx, n.netFile(), "echo 1 >/proc/sys/net/ipv4/conf/eth0/promote_secondaries"); err != nil {
		return err
	}
	family := familyOf(address)
	lines := append(addressCommands("eth0", address), fmt.Sprintf("address delete %s/%d dev eth0", before, family.length),
		"route replace "+family.anywhere+" via "+family.gateway)
	if err := runIPBatch(ctx, n.netFile(), lines...); err != nil {
		return err
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	n.addresses[0] = address
	for i, record := range c.record.Nodes {
		if record.Name == n.name {
			c.record.Nodes[i].Addresses = slices.Clone(n.addresses)
		}
	}
	return errors.Join(c.writeHosts(), c.save())
}

// macAddress is the MAC address of the node's eth0. It follows from the IP address, so that the
// ARP entries of others stay right when the node reboots or is replaced.
func (n *Node) macAddress() string {
	return fmt.Sprintf("02:00:0a:4d:00:%02x", n.number())
}

// connectNetwork creates a new network namespace for the node, with eth0, its addresses and its
// routes.
func (n *Node) connectNetwork(ctx context.Context) error {
	if err := n.removeNetwork(ctx); err != nil {
		return err
	}
	if err := newNamespace(ctx, n.netFile()); err != nil {
		return err
	}
	err := runIPBatch(ctx, n.cluster.switchFile(),
		"link add "+n.linkName()+" type veth peer name eth0 address "+n.macAddress()+" netns "+
			n.netFile(),
		"link set "+n.linkName()+" master br0",
		"link set "+n.linkName()+" up",
	)
	if err != nil {
		return err
	}
	lines := append([]string{"link set lo up", "link set eth0 up"},
		addressCommands("eth0", n.addresses...)...)
	for _, f := range n.cluster.record.Families.all() {
		if err := writeSysctls(ctx, n.netFile(), f.forward); err != nil {
			return err
		}
		lines = append(lines, "route add "+f.anywhere+" via "+f.gateway)
	}
	if err := runIPBatch(ctx, n.netFile(), lines...); err != nil {
		return err
	}
	return n.addRoutes(ctx)
}

// removeNetwork removes what connectNetwork created. The kernel removes a link with the namespace
// at either end, but asynchronously; so it is deleted explicitly.
func (n *Node) removeNetwork(ctx context.Context) error {
	if _, err := os.Stat(n.netFile()); err != nil {
		return nil
	}
	list, err := runHost(ctx, "nsenter", "--net="+n.cluster.switchFile(), "ip", "-brief", "link",
		"show", "type", "veth")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, n.linkName()+"@") {
			if err := runIPBatch(ctx, n.cluster.switchFile(),
				"link delete "+n.linkName()); err != nil {
				return err
			}
		}
	}
	// The kernel removes the namespace's links with the last process in it.
	if err := unix.Unmount(n.netFile(), unix.MNT_DETACH); err != nil && err != unix.EINVAL &&
		err != unix.ENOENT {
		return fmt.Errorf("unmounting %s: %w", n.netFile(), err)
	}
	if err := os.Remove(n.netFile()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Disconnect sets the node's link down. Its processes keep running.
func (n *Node) Disconnect(ctx context.Context) error {
	return runIPBatch(ctx, n.cluster.switchFile(), "link set "+n.linkName()+" down")
}

// Connect sets the node's link up.
func (n *Node) Connect(ctx context.Context) error {
	return runIPBatch(ctx, n.cluster.switchFile(), "link set "+n.linkName()+" up")
}

// AddRoute lets the switch, and so the load balancer and Dial, reach a network behind a node.
func (c *Cluster) AddRoute(ctx context.Context, network string, via *Node) error {
	return runIPBatch(ctx, c.switchFile(), "route replace "+network+" via "+via.Address())
}

// Dial connects to an address in the cluster's network from this process. It can be a
// rest.Config.Dial and an http.Transport.DialContext. The address must be numeric.
func (c *Cluster) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	if name, _, err := net.SplitHostPort(address); err != nil || net.ParseIP(name) == nil {
		return nil, fmt.Errorf("dialling %s in cluster %s: want a numeric address and a port",
			address, c.name)
	}
	err = runInNamespace(c.switchFile(), func() error {
		dialer := net.Dialer{Timeout: 30 * time.Second}
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens at a port of the gateway, which all nodes can reach.
func (c *Cluster) Listen(port string) (net.Listener, error) {
	return c.listen(net.JoinHostPort(c.record.Families.all()[0].gateway, port))
}

// listen listens at one of the switch's addresses.
func (c *Cluster) listen(address string) (listener net.Listener, err error) {
	err = runInNamespace(c.switchFile(), func() error {
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener, err
}

// runInNamespace calls do in a network namespace. Sockets that it creates stay in that namespace.
func runInNamespace(namespace string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread is in the wrong namespace and must end with this goroutine.
		runtime.LockOSThread()
		if err := enterNamespace(namespace); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// enterNamespace moves the calling thread to a network namespace.
func enterNamespace(namespace string) error {
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", namespace, err)
	}
	return nil
}
