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

// newControlPlanePortChecks checks the ports of the control plane components. The port of the API
// server must not be one on which another component of ours listens.
func newControlPlanePortChecks(n *node.Node) []Check {
	reserved := map[int32]string{
		kubeletHealth: "the kubelet", kubeletServer: "the kubelet", proxyHealth: "kube-proxy",
		controllerPort: release.ControllerManager, schedulerPort: release.Scheduler,
	}
	if n.Cluster.Etcd.External == nil {
		reserved[etcdClientPort], reserved[etcdPeerPort], reserved[etcdMetricsPort] = etcd, etcd,
			etcd
	}
	server := newStaticPodPortCheck(n, n.BindPort, release.APIServer)
	if other := reserved[n.BindPort]; other != "" {
		server.Run = func(_ context.Context, _ state.Reader, rep *Report) {
			rep.Fail("choose another --apiserver-bind-port",
				"port %d is reserved for %s and cannot be used by kube-apiserver", n.BindPort,
				other)
		}
	}
	return []Check{
		server,
		newStaticPodPortCheck(n, schedulerPort, release.Scheduler),
		newStaticPodPortCheck(n, controllerPort, release.ControllerManager),
	}
}

// newStaticPodPortCheck checks a port of a static Pod, at the address that the user's arguments
// set: etcd listens on the address that the API server advertises.
func newStaticPodPortCheck(n *node.Node, number int32, component string) Check {
	p := port{number: number, user: component, origin: "--apiserver-advertise-address",
		causes: []string{change.FileTarget(n.Paths.Manifest(component))}}
	argument := "bind-address"
	var args []node.Arg
	switch component {
	case etcd:
		p.host, argument, args = n.Address, "advertise-address", n.Cluster.APIServer.Args
	case release.APIServer:
		args = n.Cluster.APIServer.Args
	case release.ControllerManager:
		args = n.Cluster.ControllerManager.Args
	case release.Scheduler:
		args = n.Cluster.Scheduler.Args
	}
	if v, ok := node.LastArg(args, argument); ok {
		p.host, p.origin = v, fmt.Sprintf("the extra argument %q", argument)
	}
	return p.check()
}

func (p port) check() Check {
	return Check{Name: fmt.Sprintf("Port-%d", p.number),
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			err := r.CanListen(ctx, net.JoinHostPort(p.host, strconv.Itoa(int(p.number))))
			var taken *state.PortError
			switch {
			case err == nil:
			case errors.As(err, &taken):
				if slices.ContainsFunc(p.causes, r.WasCreated) {
					return
				}
				remedy := "stop that program"
				if taken.Owner == "" {
					remedy = fmt.Sprintf(`find it with "ss -ltnp sport = :%d" and stop it`, p.number)
				}
				if p.user == release.APIServer {
					remedy += ", or choose another --apiserver-bind-port"
				}
				rep.Fail(remedy+`; if it belongs to another cluster, clean up with "kubeadm reset"`,
					"port %d, which %s needs, is in use by %s",
					p.number, p.user, cmp.Or(taken.Owner, "an unknown program"))
			default: // the port is free, and cannot be opened
				remedy := "find out what keeps this program from opening ports"
				if p.host != "" {
					remedy = fmt.Sprintf("set %s to an address of this machine (%s)", p.origin,
						listAddresses(ctx, r))
				}
				rep.Fail(remedy, "%s needs port %d: %v", p.user, p.number, err)
			}
		}}
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
