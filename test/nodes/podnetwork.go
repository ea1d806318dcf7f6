package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// networkConfig is the CNI configuration. Plugin ptp and not bridge: packets between two Pods of a
// node are then routed by the node, so that Services work without the kernel module br_netfilter.
const networkConfig = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "ranges": [%s],
        "routes": [%s]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// PodNetwork connects the Pods of all nodes that have joined the Kubernetes cluster: it reads the
// Pod CIDR of each node from the API server, through a node that has admin.conf, writes the CNI
// configuration, and adds routes between the nodes. Nodes that join later need another call.
func (c *Cluster) PodNetwork(ctx context.Context, controlPlane *Node) error {
	var ranges map[string][]string
	err := pollUntil(ctx, "a Pod CIDR of every node", pollLimit, func(ctx context.Context) error {
		var err error
		ranges, err = listPodCIDRs(ctx, controlPlane)
		return err
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	for i, n := range c.record.Nodes {
		if cidrs, ok := ranges[n.Addresses[0]]; ok {
			c.record.Nodes[i].PodCIDRs = cidrs
		}
	}
	err = c.save()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	// The switch needs the routes too, for Dial.
	if err := runIPBatch(ctx, c.switchFile(), c.routes("")...); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		err := pollUntil(ctx, "the Pods of "+n.name+" to be connected", pollLimit,
			func(ctx context.Context) error {
				// A node that is off gets its routes when it boots.
				if pid, err := findInit(c.name, n.name); err != nil || pid == 0 {
					return nil
				}
				return n.joinPodNetwork(ctx, ranges[n.Address()])
			})
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) joinPodNetwork(ctx context.Context, cidrs []string) error {
	if err := n.addRoutes(ctx); err != nil || len(cidrs) == 0 {
		return err
	}
	const file = "/etc/cni/net.d/10-pods.conflist"
	var ranges, routes []string
	for _, cidr := range cidrs {
		ranges = append(ranges, fmt.Sprintf(`[{"subnet": %q}]`, cidr))
		routes = append(routes, fmt.Sprintf(`{"dst": %q}`, familyOf(cidr).anywhere))
	}
	config := fmt.Appendf(nil, networkConfig, strings.Join(ranges, ", "),
		strings.Join(routes, ", "))
	if have, err := n.ReadFile(file); err == nil && bytes.Equal(have, config) {
		return nil
	}
	return n.WriteFile(file, config, 0o644)
}

func (n *Node) addRoutes(ctx context.Context) error {
	return runIPBatch(ctx, n.netFile(), n.cluster.routes(n.Address())...)
}

// routes are commands of ip(8) that add routes to the Pods of all nodes except the one with the
// address.
func (c *Cluster) routes(address string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, n := range c.record.Nodes {
		if n.Addresses[0] == address {
			continue
		}
		for _, cidr := range n.PodCIDRs {
			lines = append(lines, "route replace "+cidr+" via "+n.addressForCIDR(cidr))
		}
	}
	return lines
}

// addressForCIDR returns the node's address of the CIDR's family.
func (n nodeRecord) addressForCIDR(cidr string) string {
	for _, address := range n.Addresses {
		if familyOf(address) == familyOf(cidr) {
			return address
		}
	}
	return n.Addresses[0] // ip(8) will report the error.
}

// listPodCIDRs maps the addresses of nodes to their Pod CIDRs. It fails while a node lacks one or
// the other.
func listPodCIDRs(ctx context.Context, controlPlane *Node) (map[string][]string, error) {
	list, err := listNodes(ctx, controlPlane)
	if err != nil {
		return nil, err
	}
	ranges := make(map[string][]string)
	for _, item := range list.Items {
		if len(item.Spec.PodCIDRs) == 0 {
			return nil, fmt.Errorf("node %s has no podCIDR", item.Metadata.Name)
		}
		before := len(ranges)
		for _, address := range item.Status.Addresses {
			if address.Type == "InternalIP" {
				ranges[address.Address] = item.Spec.PodCIDRs
			}
		}
		// A kubelet reports its addresses some time after it has registered.
		if len(ranges) == before {
			return nil, fmt.Errorf("node %s has no address", item.Metadata.Name)
		}
	}
	return ranges, nil
}

// nodeList has the fields of a v1 NodeList that are read here.
type nodeList struct{ Items []nodeItem }

type nodeItem struct {
	Metadata struct{ Name string }
	Spec     struct{ PodCIDRs []string }
	Status   struct {
		Addresses  []struct{ Type, Address string }
		Conditions []struct{ Type, Status, Message string }
	}
}

// checkReady returns an error unless the node is Ready.
func (i nodeItem) checkReady() error {
	for _, c := range i.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready: %v", i.Metadata.Name, i.Status.Conditions)
}

func listNodes(ctx context.Context, controlPlane *Node) (nodeList, error) {
	var list nodeList
	result, err := controlPlane.Kubectl(ctx, "get", "nodes", "--output=json")
	if err != nil {
		return list, err
	}
	if err := json.Unmarshal([]byte(result.Stdout), &list); err != nil {
		return list, fmt.Errorf("reading kubectl's list of nodes: %w", err)
	}
	return list, nil
}

// Kubectl runs kubectl on a control plane with its admin.conf.
func (n *Node) Kubectl(ctx context.Context, args ...string) (Result, error) {
	return n.Run(ctx, append([]string{"kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"},
		args...)...)
}
