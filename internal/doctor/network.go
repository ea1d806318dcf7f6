package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// networkChecks are the checks of this machine's clock and network.
func (m *machine) networkChecks() []preflight.Check {
	list := []preflight.Check{
		{Name: "MTU", Run: m.checkMTU,
			Why: "large packets from Pods are dropped on the way to other nodes, so connections hang"},
		{Name: "HTTPProxy", Run: m.checkProxy,
			Why: "kubeadm and the components would send requests within the cluster to the proxy"},
	}
	if !m.isNode {
		return list
	}
	return append(list,
		preflight.Check{Name: "EndpointDNS", Run: m.checkEndpointName,
			Why: "the kubelet and users reach the API server by this name"},
		preflight.Check{Name: "ManifestProxy", Run: m.checkManifestProxy,
			Why: "the component sends requests within the cluster to the proxy"},
		preflight.Check{Name: "Clock", Run: m.checkClock,
			Why: "each machine judges the validity of certificates, tokens and leases by its own clock"},
		m.needsAPI("PeerPorts", "control plane components connect to those on other nodes",
			m.checkPorts))
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
func (m *machine) checkMTU(ctx context.Context, r state.Reader, rep *preflight.Report) {
	all, err := r.Addresses(ctx)
	i := slices.IndexFunc(all, func(a state.Address) bool {
		return a.IP == m.local.Address || m.local.Address == "" && a.DefaultRoute
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

// runAll runs checks that report as this one.
func runAll(ctx context.Context, r state.Reader, rep *preflight.Report, checks []preflight.Check) {
	for _, c := range checks {
		c.Run(ctx, r, rep)
	}
}

// checkProxy checks the proxy variables of this process, as init and join do.
func (m *machine) checkProxy(ctx context.Context, r state.Reader, rep *preflight.Report) {
	host := m.local.Address
	if endpoint, err := m.endpoint(ctx); err == nil && host == "" {
		host, _, _ = net.SplitHostPort(endpoint)
	}
	if networks := m.networks(ctx); host == "" && len(networks) > 0 {
		host = networks[0]
	}
	if host != "" {
		runAll(ctx, r, rep, preflight.Proxies(host, m.subnets()))
	}
}

// subnets are those of Services and Pods, by the arguments of the static Pods.
func (m *machine) subnets() []string {
	var list []string
	for component, argument := range map[string]string{
		release.APIServer: "service-cluster-ip-range", release.ControllerManager: "cluster-cidr"} {
		if pod := m.pods[component]; pod != nil {
			for cidr := range strings.SplitSeq(manifest.ArgumentValue(pod, argument), ",") {
				if _, err := netip.ParsePrefix(cidr); err == nil {
					list = append(list, cidr)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// checkManifestProxy checks the proxy variables of the static Pods against the addresses of the
// cluster.
func (m *machine) checkManifestProxy(ctx context.Context, _ state.Reader, rep *preflight.Report) {
	hosts := []string{m.local.Address}
	if endpoint, err := m.endpoint(ctx); err == nil {
		host, _, _ := net.SplitHostPort(endpoint)
		hosts = append(hosts, host)
	}
	for _, cidr := range m.subnets() {
		prefix, _ := netip.ParsePrefix(cidr)
		hosts = append(hosts, prefix.Masked().Addr().Next().String())
	}
	for _, component := range slices.Sorted(maps.Keys(m.pods)) {
		c, err := manifest.ComponentContainer(m.pods[component], component)
		if err != nil {
			continue // check StaticPods reports it
		}
		var proxy, noProxy string
		for _, v := range c.Env {
			switch strings.ToUpper(v.Name) {
			case "HTTPS_PROXY":
				proxy = v.Value
			case "NO_PROXY":
				noProxy = v.Value
			}
		}
		var proxied []string
		for _, host := range hosts {
			if proxy != "" && host != "" && !slices.Contains(proxied, host) &&
				!isExcluded(host, noProxy) {
				proxied = append(proxied, host)
			}
		}
		if len(proxied) > 0 {
			file := m.local.Paths.Manifest(component)
			rep.Add(preflight.Finding{Severity: preflight.Error,
				Text:     fmt.Sprintf("%s uses a proxy for addresses inside the cluster", component),
				Evidence: fmt.Sprintf("%s: with its HTTPS_PROXY and NO_PROXY, a proxy is used for %s", file, strings.Join(proxied, ", ")),
				Remedy:   "add them, or the subnets, to NO_PROXY in " + file})
		}
	}
}

// isExcluded reports whether NO_PROXY excludes a host from the proxy, by the rules of Go's HTTP client:
// "*", an IP address, a subnet, or a domain with what is below it; and always loopback addresses.
func isExcluded(host, noProxy string) bool {
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	if host == "localhost" || isIP && ip.IsLoopback() {
		return true
	}
	for entry := range strings.SplitSeq(noProxy, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		prefix, err := netip.ParsePrefix(entry)
		domain := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		switch {
		case entry == "":
		case entry == "*", entry == host, isIP && err == nil && prefix.Contains(ip):
			return true
		case !isIP && (host == domain && !strings.HasPrefix(entry, ".") || strings.HasSuffix(host, "."+domain)):
			return true
		}
	}
	return false
}

// lookupLimit is the time for a lookup.
const lookupLimit = 2 * time.Second

func (m *machine) checkEndpointName(ctx context.Context, r state.Reader, rep *preflight.Report) {
	endpoint, err := m.endpoint(ctx)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	host, _, err := net.SplitHostPort(endpoint)
	if _, isName := netip.ParseAddr(host); err != nil || isName == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := r.Lookup(ctx, host)
	if err == nil && len(found) > 0 {
		return
	}
	rep.Add(preflight.Finding{Severity: preflight.Error,
		Text:     fmt.Sprintf("the API server's name, %q, cannot be resolved", host),
		Evidence: fmt.Sprintf("%s: %v", m.identity.Kubeconfig, err),
		Remedy:   "add the name to DNS or to /etc/hosts, or fix the name servers in /etc/resolv.conf"})
}

// Differences between the clocks of two machines. Certificates are valid five minutes before they are
// signed, and the header that shows another machine's time has no fractions of a second.
const (
	clockWarning = 5 * time.Second
	clockError   = 5 * time.Minute
)

// maxPeers is how many other nodes are asked at most.
const maxPeers = 20

// checkClock compares the clock with that of the API server, and of other nodes where they can be
// listed.
func (m *machine) checkClock(ctx context.Context, r state.Reader, rep *preflight.Report) {
	servers := map[string]string{}
	if endpoint, err := m.endpoint(ctx); err == nil {
		servers[endpoint] = "the API server at " + endpoint
	}
	if all, err := m.nodes(ctx, r); err == nil {
		for name, n := range m.peers(all) {
			if address := kubeletAddress(n); address != "" && len(servers) <= maxPeers {
				servers[address] = "node " + name
			}
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	answered := 0
	for address, name := range servers {
		wg.Go(func() {
			there, err := r.ServerTime(ctx, address)
			here := r.Now()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				return
			}
			answered++
			difference := here.Sub(there).Abs()
			if difference < clockWarning {
				return
			}
			severity := preflight.Warning
			if difference >= clockError {
				severity = preflight.Error
			}
			rep.Add(preflight.Finding{Severity: severity,
				Text: fmt.Sprintf("the clocks of this machine and of %s differ by %s", name,
					difference.Round(time.Second)),
				Evidence: fmt.Sprintf("this machine: %s; %s: %s", here.UTC().Format(time.RFC3339), name,
					there.UTC().Format(time.RFC3339)),
				Remedy:  "synchronize the clocks with NTP",
				Command: "timedatectl set-ntp true"})
		})
	}
	wg.Wait()
	if answered == 0 {
		rep.Skip("no other machine reports its time")
	}
}

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

// checkPorts connects to the ports of other nodes that components of this one use: etcd, the API
// server and the kubelet. Those of etcd are known when the members have answered.
func (m *machine) checkPorts(ctx context.Context, r state.Reader, rep *preflight.Report) {
	if !m.isControlPlane() {
		return // a worker connects to the API server only, which check APIServer does
	}
	all, err := m.nodes(ctx, r)
	if m.skipOnError(rep, err) {
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
	connectAll(m.nodePorts(ctx, r, all))
	if m.hasLocalEtcd(ctx) {
		members := m.etcdPorts(ctx, r)
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

// nodePorts returns the addresses of the kubelets and API servers of other nodes, and what they are.
func (m *machine) nodePorts(ctx context.Context, r state.Reader, all []corev1.Node) map[string]string {
	ports := map[string]string{}
	advertised := m.apiEndpoints(ctx, r)
	for name, n := range m.peers(all) {
		address := kubeletAddress(n)
		if address == "" || len(ports) > maxPeers {
			continue
		}
		ports[address] = "the kubelet of node " + name
		if _, ok := n.Labels[node.ControlPlaneLabel]; ok {
			endpoint := cmp.Or(advertised[name],
				net.JoinHostPort(internalAddress(n), strconv.Itoa(int(m.local.BindPort))))
			ports[endpoint] = "the API server of node " + name
		}
	}
	return ports
}

// apiEndpoints returns the "host:port" that API servers advertise, as far as they can be read, by node.
func (m *machine) apiEndpoints(ctx context.Context, r state.Reader) map[string]string {
	pods, _ := listObjects[corev1.Pod](ctx, r, state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: metav1.NamespaceSystem,
		LabelSelector: "component=" + release.APIServer, As: m.identity})
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
func (m *machine) etcdPorts(ctx context.Context, r state.Reader) map[string]string {
	health, err := m.members(ctx, r)
	if err != nil {
		return nil // check EtcdMembers reports it
	}
	ports := map[string]string{}
	for _, member := range health.Members {
		if slices.Contains(member.PeerURLs, m.local.PeerURL()) {
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

// isUnreachable reports whether the error is that of a connection and not of the handshake after it.
func isUnreachable(err error) bool {
	_, isOp := errors.AsType[*net.OpError](err)
	return isOp || errors.Is(err, state.ErrNoServer) || errors.Is(err, context.DeadlineExceeded)
}

// isReady returns whether a node is ready, and the reason if it is not.
func isReady(n corev1.Node) (bool, corev1.NodeCondition) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c
		}
	}
	return false, corev1.NodeCondition{Message: "its kubelet has not reported yet"}
}
