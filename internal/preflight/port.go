package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// The ports that the user cannot change.
const (
	kubeletHealth   = 10248
	kubeletServer   = 10250
	proxyHealth     = 10256
	controllerPort  = 10257
	schedulerPort   = 10259
	etcdClientPort  = 2379
	etcdPeerPort    = 2380
	etcdMetricsPort = 2381
)

// port is a TCP port that a component is going to listen on.
type port struct {
	number int32
	host   string   // empty for all addresses
	origin string   // flag or setting of host
	user   string   // the component
	causes []string // targets: if a run of ours made one, the listener is ours
}

func newControlPlanePortChecks(n *node.Node) []Check {
	c := n.Cluster
	return []Check{
		newAPIServerPortCheck(n),
		newStaticPodPort(n, schedulerPort, release.Scheduler).withBindAddress(c.Scheduler.Args,
			"bind-address", "").check(),
		newStaticPodPort(n, controllerPort,
			release.ControllerManager).withBindAddress(c.ControllerManager.Args, "bind-address",
			"").check(),
	}
}

// newAPIServerPortCheck first checks that no other component of ours will listen on the port.
func newAPIServerPortCheck(n *node.Node) Check {
	c := newStaticPodPort(n, n.BindPort,
		release.APIServer).withBindAddress(n.Cluster.APIServer.Args, "bind-address", "").check()
	reserved := map[int32]string{
		kubeletHealth: "the kubelet", kubeletServer: "the kubelet", proxyHealth: "kube-proxy",
		controllerPort: release.ControllerManager, schedulerPort: release.Scheduler,
	}
	if n.Cluster.Etcd.External == nil {
		reserved[etcdClientPort], reserved[etcdPeerPort], reserved[etcdMetricsPort] = etcd, etcd,
			etcd
	}
	other := reserved[n.BindPort]
	if other == "" {
		return c
	}
	c.Run = func(_ context.Context, _ state.Reader, rep *Report) {
		rep.Fail("choose another --apiserver-bind-port",
			"port %d is reserved for %s and cannot be used by kube-apiserver", n.BindPort, other)
	}
	return c
}

// newStaticPodPort returns a port of a static Pod.
func newStaticPodPort(n *node.Node, number int32, component string) port {
	return port{number: number, user: component,
		causes: []string{change.FileTarget(n.Paths.Manifest(component))}}
}

// withBindAddress returns the port at the address of an extra argument, else at the fallback.
func (p port) withBindAddress(args []node.Arg, name, fallback string) port {
	p.host, p.origin = fallback, "--apiserver-advertise-address"
	if v, ok := node.LastArg(args, name); ok {
		p.host, p.origin = v, fmt.Sprintf("the extra argument %q", name)
	}
	return p
}

func (p port) check() Check {
	return Check{Name: fmt.Sprintf("Port-%d", p.number),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			err := r.CanListen(ctx, net.JoinHostPort(p.host, strconv.Itoa(int(p.number))))
			var taken *state.PortError
			switch {
			case err == nil:
			case errors.As(err, &taken):
				if !slices.ContainsFunc(p.causes, r.WasCreated) {
					rep.Fail(p.freePortHint(taken.Owner),
						"port %d, which %s needs, is in use by %s",
						p.number, p.user, cmp.Or(taken.Owner, "an unknown program"))
				}
			default: // the port is free, and cannot be opened
				remedy := "check what keeps this program from opening ports"
				if p.host != "" {
					remedy = fmt.Sprintf("set %s to an address of this machine (%s)", p.origin,
						listAddresses(ctx, r))
				}
				rep.Fail(remedy, "%s needs port %d: %v", p.user, p.number, err)
			}
		}}
}

// freePortHint says how to free the port.
func (p port) freePortHint(owner string) string {
	steps := `stop that program`
	if owner == "" {
		steps = fmt.Sprintf(`find it with "ss -ltnp sport = :%d" and stop it`, p.number)
	}
	if p.user == release.APIServer {
		steps += ", or choose another --apiserver-bind-port"
	}
	return steps + `; if it belongs to another cluster, clean up with "kubeadm reset"`
}

func listAddresses(ctx context.Context, r state.Reader) string {
	all, err := r.Addresses(ctx)
	if err != nil || len(all) == 0 {
		return "none could be found"
	}
	var ips []string
	for _, a := range all {
		ips = append(ips, a.IP)
	}
	return strings.Join(ips, ", ")
}
