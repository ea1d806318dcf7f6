package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// peersOf are the other nodes that are asked, control plane nodes first.
func peersOf(own string, all []corev1.Node) []corev1.Node {
	var peers []corev1.Node
	for _, wanted := range []bool{true, false} {
		for _, n := range all {
			if _, ok := n.Labels[node.ControlPlaneLabel]; ok == wanted && n.Name != own && len(peers) < maxPeers {
				peers = append(peers, n)
			}
		}
	}
	return peers
}

// maxPeers is how many other nodes are asked at most.
const maxPeers = 20

// kubeletPort is the port of a kubelet's server whose Node does not tell it.
const kubeletPort = 10250

// kubeletAddress is the "host:port" of the server of a node's kubelet, or empty.
func kubeletAddress(n corev1.Node) string {
	address := internalAddress(n)
	if address == "" {
		return ""
	}
	port := cmp.Or(n.Status.DaemonEndpoints.KubeletEndpoint.Port, kubeletPort)
	return net.JoinHostPort(address, strconv.Itoa(int(port)))
}

func internalAddress(n corev1.Node) string {
	i := slices.IndexFunc(n.Status.Addresses,
		func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 {
		return ""
	}
	return n.Status.Addresses[i].Address
}

// checkPorts connects to the ports of other nodes that components of this one use: etcd, the API
// server and the kubelet. Those of etcd are known when the members have answered.
func checkPorts(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	if !m.isControlPlane() {
		return // a worker connects to the API server only, which check APIServer does
	}
	all, err := m.cluster.nodes(ctx, r)
	if m.cluster.skipOnError(rep, err) {
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	connectAll := func(ports map[string]string) {
		for address, name := range ports {
			wg.Go(func() {
				err := connect(ctx, r, address)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, errNoTime):
					rep.Skip("%s at %s: %v", name, address, err)
				case err != nil:
					rep.Add(preflight.Finding{Severity: preflight.Error,
						Text:     fmt.Sprintf("%s at %s cannot be reached", name, address),
						Evidence: err.Error(),
						Remedy:   "check that it is running, and that no firewall on the way drops TCP to that port"})
				}
			})
		}
	}
	connectAll(nodePorts(ctx, r, m, all))
	if m.hasEtcd {
		members := etcdPorts(ctx, r, m)
		if ctx.Err() == nil {
			connectAll(members)
		} else {
			mu.Lock()
			rep.Skip("etcd's members: %v", context.Cause(ctx))
			mu.Unlock()
		}
	}
	wg.Wait()
}

// connectLimit is the time for one connection: a packet that is lost is sent again after a second.
const connectLimit = 2 * time.Second

// errNoTime says that the time of the check was up before that of a connection.
var errNoTime = errors.New("there was no time to connect")

// connect returns why no connection can be made to an address.
func connect(ctx context.Context, r state.Reader, address string) error {
	limited, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	_, err := r.ServedCertificate(limited, address)
	if err == nil || !isUnreachable(err) {
		return nil
	}
	own, _ := limited.Deadline()
	whole, isLimited := ctx.Deadline()
	late, isNet := errors.AsType[net.Error](err)
	isTimeout := isNet && late.Timeout()
	if ctx.Err() != nil || isTimeout && isLimited && !own.Before(whole) {
		return errNoTime
	}
	return err
}

// isUnreachable reports whether the error is that of a connection and not of the handshake after it.
func isUnreachable(err error) bool {
	_, isOp := errors.AsType[*net.OpError](err)
	return isOp || errors.Is(err, state.ErrNoServer) || errors.Is(err, context.DeadlineExceeded)
}

// nodePorts returns the addresses of the kubelets and API servers of other nodes, and what they are.
func nodePorts(ctx context.Context, r state.Reader, m *machine,
	all []corev1.Node) map[string]string {
	ports := map[string]string{}
	advertised := apiEndpoints(ctx, r, m.cluster.as)
	for _, n := range peersOf(m.Name, all) {
		address := kubeletAddress(n)
		if address == "" {
			continue
		}
		ports[address] = "the kubelet of node " + n.Name
		if _, ok := n.Labels[node.ControlPlaneLabel]; ok {
			endpoint := cmp.Or(advertised[n.Name],
				net.JoinHostPort(internalAddress(n), strconv.Itoa(int(m.BindPort))))
			ports[endpoint] = "the API server of node " + n.Name
		}
	}
	return ports
}

// apiEndpoints returns the "host:port" that API servers advertise, as far as they can be read, by node.
func apiEndpoints(ctx context.Context, r state.Reader, as state.Identity) map[string]string {
	pods, _ := state.ListOf[corev1.Pod](ctx, r, state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: metav1.NamespaceSystem,
		LabelSelector: "component=" + release.APIServer, As: as})
	endpoints := map[string]string{}
	for _, p := range pods {
		endpoint := p.Annotations[manifest.EndpointAnnotation]
		if _, err := netip.ParseAddrPort(endpoint); err == nil {
			endpoints[p.Spec.NodeName] = endpoint
		}
	}
	return endpoints
}

// etcdPorts returns the addresses of the other members of etcd, and what they are.
func etcdPorts(ctx context.Context, r state.Reader, m *machine) map[string]string {
	health, err := m.members(ctx, r)
	if err != nil {
		return nil // check EtcdMembers reports it
	}
	ports := map[string]string{}
	for _, member := range health.Members {
		if slices.Contains(member.PeerURLs, m.PeerURL()) {
			continue
		}
		for _, text := range slices.Concat(member.PeerURLs, member.ClientURLs) {
			if u, err := url.Parse(text); err == nil {
				ports[u.Host] = "etcd member " + member.Name
			}
		}
	}
	return ports
}
