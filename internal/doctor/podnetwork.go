package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// cniConfig returns the configuration file that a runtime uses, the first by name, and its content.
func cniConfig(ctx context.Context, r state.Reader) (name string, data []byte, err error) {
	files, err := r.ReadDir(ctx, node.CNIConfigDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	for _, f := range files { // sorted by name
		if slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(f.Path)) {
			data, err := r.ReadFile(ctx, f.Path)
			return f.Path, data, err
		}
	}
	return "", nil, nil
}

func checkPodNetwork(ctx context.Context, r state.Reader, rep *preflight.Report) {
	file, _, err := cniConfig(ctx, r)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	if file == "" {
		rep.Add(preflight.Finding{Severity: preflight.Warning, Text: "no Pod network is configured",
			Evidence: "there is no configuration file in " + node.CNIConfigDir,
			Remedy:   "install a Pod network add-on; if one is installed, it writes the file as soon as its Pod runs on this node"})
	}
}

// podInterfaces are the interfaces whose own MTU limits the packets of Pods, by the beginning of their
// names, and how many bytes a tunnel adds to each packet; the first that matches is meant. Others are not
// compared: bridges forward what their ports accept, Cilium limits packets by the MTU of routes
// (https://github.com/cilium/cilium/blob/v1.15.3/pkg/mtu/mtu.go), and Weave's vxlan-6784 has the largest
// MTU by design.
var podInterfaces = []struct {
	prefix   string
	overhead int
}{
	{"veth", 0}, {"cali", 0}, {"flannel.ipip", 20}, {"flannel.", 50}, {"flannel-v6.", 70},
	{"vxlan.calico", 50}, {"vxlan-v6.calico", 70}, {"tunl", 20},
}

// checkMTU compares the MTU of the Pods' interfaces with that of the interface to other nodes.
func checkMTU(ctx context.Context, r state.Reader, rep *preflight.Report, address string) {
	all, err := r.Addresses(ctx)
	i := slices.IndexFunc(all, func(a state.Address) bool {
		return a.IP == address || address == "" && a.DefaultRoute
	})
	if err != nil || i < 0 {
		rep.Skip("the interface to other nodes is unknown")
		return
	}
	uplink := all[i].Interface
	links, err := r.Links(ctx)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	i = slices.IndexFunc(links, func(l state.Link) bool { return l.Name == uplink })
	if i < 0 || links[i].MTU == 0 {
		rep.Skip("the MTU of %s is unknown", uplink)
		return
	}
	limit := links[i].MTU
	var tooLarge []string
	for _, l := range links {
		for _, p := range podInterfaces {
			if l.Name == uplink || !strings.HasPrefix(l.Name, p.prefix) {
				continue
			}
			isUnused := p.prefix == "tunl" && len(l.Addresses) == 0 // its module creates it
			if l.MTU+p.overhead > limit && !isUnused {
				tooLarge = append(tooLarge, fmt.Sprintf("%s: %d", l.Name, l.MTU))
			}
			break
		}
	}
	if len(tooLarge) > 0 {
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text: fmt.Sprintf("Pods may send larger packets than %s, the interface to other nodes, can transmit",
				uplink),
			Evidence: fmt.Sprintf("MTU of %s: %d; of interfaces of Pods: %s", uplink, limit,
				strings.Join(tooLarge, ", ")),
			Remedy: "set the MTU in the configuration of the Pod network to that of " + uplink +
				" without the overhead of its tunnel"})
	}
}
