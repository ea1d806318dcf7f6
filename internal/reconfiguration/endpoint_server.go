package reconfiguration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkHost refuses hosts at which no API server of the cluster can be reached from other machines.
func checkHost(host string, now *node.Node) error {
	if IsLoopback("https://" + net.JoinHostPort(host, "0")) {
		return problem.New(fmt.Errorf("controlPlaneEndpoint: %s leads each machine to itself, and workers run no API server",
			host), "use a DNS name, or the address of a load balancer", "to use a load balancer on each node, set it in the "+
			"kubeconfigs of the kubelets and of kube-proxy, which keep it")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil // a DNS name
	}
	if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
		return problem.New(fmt.Errorf("controlPlaneEndpoint: %s is not an address that other machines can reach", ip),
			"use a DNS name, or the address of a load balancer")
	}
	for _, r := range []struct{ field, cidrs string }{
		{"networking.podSubnet", now.Cluster.PodSubnet}, {"networking.serviceSubnet", now.Cluster.ServiceSubnet},
	} {
		for text := range strings.SplitSeq(r.cidrs, ",") {
			if cidr, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && cidr.Contains(ip) {
				return problem.New(fmt.Errorf("controlPlaneEndpoint: %s is in %s of the cluster, %s", ip, r.field, cidr),
					"use an address of the network of the nodes")
			}
		}
	}
	return nil
}

// checkLeadsHere is an error if a URL does not lead to an API server of this cluster. The server is verified by
// the CA of the cluster; its certificate need not have the host of the URL yet, as it gets that later.
func checkLeadsHere(ctx context.Context, e *engine.Env, here existing.Machine, server string) error {
	failed := func(err error) error {
		return problem.New(fmt.Errorf("%s does not lead to an API server of this cluster: %w", server, err),
			"let the load balancer or DNS name lead to the API server of each control plane node, then run the "+
				"command again")
	}
	if _, err := e.World.ServedCertificate(ctx, hostPort(server)); err != nil {
		return failed(err) // sooner than requests, which are retried
	}
	as := state.Identity{}
	var err error
	if as.Config, err = namedKubeconfig(ctx, e, here.As.Kubeconfig, server); err != nil {
		return err
	}
	uid := func(as state.Identity) (string, error) {
		u, err := e.Object(ctx, state.RefOf(clusterInfo(), as))
		if err != nil {
			return "", err
		}
		return string(u.GetUID()), nil
	}
	own, err := uid(here.As)
	if err != nil {
		return err
	}
	other, err := uid(as)
	if err == nil && own != other {
		err = errors.New("another cluster answers there")
	}
	if err != nil {
		return failed(err)
	}
	return nil
}

// apiServerName is a name that the certificate of each API server has.
const apiServerName = "kubernetes"

// namedKubeconfig is a kubeconfig with which the API server at a URL is verified by apiServerName.
func namedKubeconfig(ctx context.Context, e *engine.Env, file, server string) ([]byte, error) {
	data, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	kubeconfig.ResolvePaths(path.Dir(file))
	cluster, err := kubeconfig.CurrentCluster()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	kubeconfig.SetServer(server)
	cluster.TLSServerName = apiServerName
	return kubeconfig.Encode()
}

// listUncertified lists the other control plane nodes whose API servers serve no certificate for a host.
func (f finder) listUncertified(ctx context.Context, host string) (behind []string, err error) {
	names, err := f.otherControlPlanes(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := f.e.List(ctx, state.Query{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), As: f.here.As,
		Namespace: metav1.NamespaceSystem, LabelSelector: "component=" + release.APIServer})
	if err != nil {
		return nil, fmt.Errorf("looking for the other API servers: %w", err)
	}
	servers := map[string]string{}
	for _, u := range pods {
		name, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
		servers[name] = u.GetAnnotations()[manifest.EndpointAnnotation]
	}
	for _, name := range names {
		if why := f.whyUncertified(ctx, servers[name], host); why != nil {
			behind = append(behind, untrusted.Line(name)+": "+untrusted.Line(why.Error()))
		}
	}
	slices.Sort(behind)
	return behind, context.Cause(ctx)
}

// otherControlPlanes are the names of the other control plane nodes.
func (f finder) otherControlPlanes(ctx context.Context) (names []string, err error) {
	nodes, err := f.e.List(ctx, state.Query{GVK: state.NodeKind, As: f.here.As, Fields: []string{"metadata"},
		LabelSelector: node.ControlPlaneLabel})
	if err != nil {
		return nil, fmt.Errorf("looking for the other control plane nodes: %w", err)
	}
	for _, u := range nodes {
		if u.GetName() != f.here.Name {
			names = append(names, u.GetName())
		}
	}
	return names, nil
}

func (f finder) whyUncertified(ctx context.Context, server, host string) error {
	if _, err := netip.ParseAddrPort(server); err != nil {
		return errors.New("the address of its API server is not known")
	}
	served, err := f.e.World.ServedCertificate(ctx, server)
	if err != nil {
		return fmt.Errorf("its API server at %s does not answer: %w", server, err)
	}
	if served.VerifyHostname(host) != nil {
		return fmt.Errorf("the certificate of its API server lacks %s", host)
	}
	return nil
}

// clusterInfo is the ConfigMap by which joining machines find the cluster, without its data.
func clusterInfo() *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}}
}

// readInfoServer returns the URL to which cluster-info leads joining machines.
func readInfoServer(ctx context.Context, e *engine.Env, as state.Identity) (string, error) {
	u, err := e.Object(ctx, state.RefOf(clusterInfo(), as))
	if apierrors.IsNotFound(err) {
		return "", problem.New(errors.New("ConfigMap kube-public/cluster-info does not exist, which leads kubelets to the "+
			"API server"), "create it: kubeadm init phase bootstrap-token")
	}
	if err != nil {
		return "", err
	}
	return infoServer(u)
}

func infoServer(u *unstructured.Unstructured) (string, error) {
	text, _, _ := unstructured.NestedString(u.Object, "data", bootstrapapi.KubeConfigKey)
	kubeconfig, err := pki.ParseKubeconfig([]byte(text))
	if err != nil {
		return "", fmt.Errorf("reading ConfigMap kube-public/cluster-info: %w", err)
	}
	cluster, err := kubeconfig.DiscoveryCluster()
	if err != nil {
		return "", problem.New(fmt.Errorf("reading ConfigMap kube-public/cluster-info: %w", err),
			"write it again: kubeadm init phase bootstrap-token")
	}
	return cluster.Server, nil
}

// ListServers returns the URLs to which the ConfigMaps cluster-info and kube-proxy lead machines.
func ListServers(ctx context.Context, e *engine.Env, as state.Identity) ([]string, error) {
	info := ""
	u, err := e.Object(ctx, state.RefOf(clusterInfo(), as))
	if err == nil {
		info, err = infoServer(u)
	}
	if err != nil && !apierrors.IsNotFound(err) { // which some delete on purpose
		return nil, err
	}
	proxy, err := readProxyServer(ctx, e, as)
	return []string{info, proxy}, err
}

// ClusterInfoChange returns the change that leads joining machines to the new endpoint. The signatures of the
// previous content are removed: kube-controller-manager signs the new one within seconds.
func (c *EndpointChange) ClusterInfoChange(as state.Identity) change.Change {
	return change.MutateObject{Object: clusterInfo(), As: as, Mutate: func(u *unstructured.Unstructured) error {
		server, err := infoServer(u)
		if err != nil || server == c.To {
			return err
		}
		text, _, _ := unstructured.NestedString(u.Object, "data", bootstrapapi.KubeConfigKey)
		kubeconfig, err := pki.ParseKubeconfig([]byte(text))
		if err != nil {
			return err
		}
		cluster, err := kubeconfig.DiscoveryCluster()
		if err != nil {
			return err
		}
		cluster.Server = c.To
		data, err := kubeconfig.Encode()
		if err != nil {
			return err
		}
		return unstructured.SetNestedStringMap(u.Object, map[string]string{bootstrapapi.KubeConfigKey: string(data)}, "data")
	}}
}

// MoveKubeconfig returns a kubeconfig with the new endpoint in place of one from before; the same data if it
// leads somewhere else.
func (c *EndpointChange) MoveKubeconfig(data []byte, file string) ([]byte, error) {
	kubeconfig, err := pki.ParseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	cluster, err := kubeconfig.CurrentCluster()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if !c.LeavesFrom(cluster.Server) {
		return data, nil
	}
	cluster.Server, cluster.TLSServerName = c.To, ""
	return kubeconfig.Encode()
}

// LeavesFrom reports whether a server is a previous endpoint, also at another port of its host.
func (c *EndpointChange) LeavesFrom(server string) bool {
	return server != c.To && slices.ContainsFunc(c.From, func(from string) bool {
		return server == from || node.SameHost(node.HostOf(server), node.HostOf(from)) &&
			!node.SameHost(node.HostOf(from), node.HostOf(c.To))
	})
}

// HasReached reports whether the cluster stores the new endpoint already, or leads joining machines or kube-proxy
// to it.
func (c *EndpointChange) HasReached(ctx context.Context, e *engine.Env, as state.Identity) (bool, error) {
	info, err := readInfoServer(ctx, e, as)
	if err != nil || info == c.To {
		return true, err
	}
	proxy, err := readProxyServer(ctx, e, as)
	if err != nil || proxy == c.To {
		return true, err
	}
	n, err := existing.ReadCluster(ctx, e, as)
	return err != nil || "https://"+n.Cluster.Endpoint == c.To, err
}

// readProxyServer returns the API server that kube-proxy uses; empty if there is none.
func readProxyServer(ctx context.Context, e *engine.Env, as state.Identity) (string, error) {
	u, err := e.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), As: as,
		Namespace: metav1.NamespaceSystem, Name: manifest.KubeProxyConfigMap})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, _, _ := unstructured.NestedString(u.Object, "data", "kubeconfig.conf")
	kubeconfig, err := pki.ParseKubeconfig([]byte(text))
	if err != nil {
		return "", nil //nolint:nilerr // it is the user's own
	}
	cluster, err := kubeconfig.CurrentCluster()
	if err != nil {
		return "", nil //nolint:nilerr // it is the user's own
	}
	return cluster.Server, nil
}

// FindProxyServer returns the API server that kube-proxy uses if that is neither the endpoint of the cluster nor one
// from before, such as a load balancer on each node; otherwise it is empty.
func FindProxyServer(ctx context.Context, e *engine.Env, as state.Identity, after *node.Node) (string, error) {
	server, err := readProxyServer(ctx, e, as)
	if err != nil {
		return "", err
	}
	before, c := IntentOf(e).Before.ServerURL(), IntentOf(e).Change.Endpoint
	if server == before || server == after.ServerURL() || c != nil && c.LeavesFrom(server) {
		return "", nil
	}
	return server, nil
}

// IsLoopback reports whether a server is one of this machine, such as a load balancer on each node.
func IsLoopback(server string) bool {
	host := node.HostOf(server)
	ip, err := netip.ParseAddr(host)
	isLocal := host == "localhost" || strings.HasSuffix(host, ".localhost") // RFC 6761
	return isLocal || err == nil && ip.Unmap().IsLoopback()
}

func hostPort(server string) string { return strings.TrimPrefix(server, "https://") }
