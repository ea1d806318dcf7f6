package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// The ports that are not the user's choice.
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
	origin string   // flag or setting that host is from
	user   string   // the component
	causes []string // targets: where a run of ours made one, the listener is ours
}

func controlPlanePorts(n *node.Node) []Check {
	c := n.Cluster
	return []Check{
		apiServerPort(n),
		static(n, schedulerPort, release.Scheduler).bound(c.Scheduler.Args, "bind-address", "").check(),
		static(n, controllerPort, release.ControllerManager).bound(c.ControllerManager.Args, "bind-address", "").check(),
	}
}

// apiServerPort first looks whether the port is one that another component of ours will want.
func apiServerPort(n *node.Node) Check {
	c := static(n, n.BindPort, release.APIServer).bound(n.Cluster.APIServer.Args, "bind-address", "").check()
	rival := reserved(n)[n.BindPort]
	if rival == "" {
		return c
	}
	c.Run = func(_ context.Context, _ state.Reader, rep *Report) {
		rep.Fail("choose another --apiserver-bind-port", "port %d cannot be kube-apiserver's: %s listens there", n.BindPort, rival)
	}
	return c
}

// reserved are the ports that components other than the API server will listen on.
func reserved(n *node.Node) map[int32]string {
	ports := map[int32]string{
		kubeletHealth: "the kubelet", kubeletServer: "the kubelet", proxyHealth: "kube-proxy",
		controllerPort: release.ControllerManager, schedulerPort: release.Scheduler,
	}
	if n.Cluster.Etcd.External == nil {
		ports[etcdClientPort], ports[etcdPeerPort], ports[etcdMetricsPort] = etcd, etcd, etcd
	}
	return ports
}

func etcdPorts(n *node.Node) []Check {
	var list []Check
	for _, number := range []int32{etcdClientPort, etcdPeerPort} {
		list = append(list, static(n, number, etcd).bound(n.Cluster.APIServer.Args, "advertise-address", n.Address).check())
	}
	return list
}

func kubeletPort(p node.Paths) Check {
	return port{number: kubeletServer, user: "the kubelet", causes: kubeletTargets(p)}.check()
}

// static is a port of a static Pod.
func static(n *node.Node, number int32, component string) port {
	return port{number: number, user: component, causes: []string{change.FileTarget(n.Paths.Manifest(component))}}
}

// bound is the port at the address that an extra argument gives, else at the fallback.
func (p port) bound(args []node.Arg, name, fallback string) port {
	p.host, p.origin = fallback, "--apiserver-advertise-address"
	if v, ok := node.LastArg(args, name); ok {
		p.host, p.origin = v, fmt.Sprintf("the extra argument %q", name)
	}
	return p
}

func (p port) check() Check { return Check{Name: fmt.Sprintf("Port-%d", p.number), Run: p.run} }

func (p port) run(ctx context.Context, r state.Reader, rep *Report) {
	err := r.CanListen(ctx, net.JoinHostPort(p.host, strconv.Itoa(int(p.number))))
	var taken *state.PortError
	switch {
	case err == nil:
	case errors.As(err, &taken):
		if !made(r, p.causes...) {
			rep.Fail(p.wayOut(taken.Owner), "port %d, which %s needs, is in use by %s",
				p.number, p.user, cmp.Or(taken.Owner, "a program that is not known"))
		}
	default:
		rep.Fail(p.other(ctx, r), "%s needs port %d: %v", p.user, p.number, err)
	}
}

// other is what to do where the port is free and still cannot be had.
func (p port) other(ctx context.Context, r state.Reader) string {
	if p.host == "" {
		return "see what keeps this program from opening ports"
	}
	return fmt.Sprintf("set %s to an address of this machine (%s)", p.origin, addresses(ctx, r))
}

// wayOut is how to get the port free.
func (p port) wayOut(owner string) string {
	steps := `stop that program`
	if owner == "" {
		steps = fmt.Sprintf(`find it with "ss -ltnp sport = :%d" and stop it`, p.number)
	}
	if p.user == release.APIServer {
		steps += ", or choose another --apiserver-bind-port"
	}
	return steps + `; if it belongs to another cluster, clean up with "kubeadm reset"`
}

func addresses(ctx context.Context, r state.Reader) string {
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
