package kubeletserving

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/upgrade"
)

// cluster is what requests are compared with. All of it must be known: what could not be read is
// not "nothing to refuse".
type cluster struct {
	node.AllowedNames
	local    []netip.Prefix // networks of this machine's API server
	services []netip.Prefix
	pods     []netip.Prefix
	domain   string // of the Services
	// names and addresses of the API server and of etcd, and what they are
	controlPlane map[string]string
	nodes        map[string]knownNode // by name
	// who else has a name or an address
	owners map[string][]owner
}

// knownNode is a Node, with the addresses that its kubelet or a cloud controller manager has written.
type knownNode struct {
	addresses      []string
	isControlPlane bool
}

// owner is something of a Node that has an address.
type owner struct{ node, what string }

// apiServerAddress is what an address is that an API server has published itself.
const apiServerAddress = "the address of an API server"

// clusterReader reads the facts of a cluster into c.
type clusterReader struct {
	state.Reader
	as state.Identity
	c  *cluster
}

func readCluster(ctx context.Context, r state.Reader, as state.Identity, allowed node.AllowedNames) (*cluster, error) {
	c := &cluster{AllowedNames: allowed, controlPlane: map[string]string{}, nodes: map[string]knownNode{},
		owners: map[string][]owner{}}
	read := clusterReader{r, as, c}
	config, _, err := upgrade.ReadConfig(ctx, r, as)
	if err != nil {
		return nil, err
	}
	if err := c.addConfig(&config); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{read.serviceCIDRs, read.apiServers, read.staticPods} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c, read.nodeList(ctx, trustsLabels(config.APIServer.Args))
}

// addConfig adds what the ClusterConfiguration says of the API server, of Services and of external etcd.
func (c *cluster) addConfig(config *node.Cluster) (err error) {
	c.domain = normalize(config.DNSDomain)
	if c.services, err = parseNetworks(config.ServiceSubnet); err != nil {
		return fmt.Errorf("networking.serviceSubnet of ConfigMap kube-system/kubeadm-config: %w", err)
	}
	if c.pods, err = parseNetworks(config.PodSubnet); err != nil {
		return fmt.Errorf("networking.podSubnet of ConfigMap kube-system/kubeadm-config: %w", err)
	}
	n := node.Node{Cluster: *config}
	if host := n.CertificateNames().ControlPlaneHost; host != "" {
		c.addControlPlane(host, "the controlPlaneEndpoint")
	}
	for _, name := range config.CertSANs {
		c.addControlPlane(name, "in apiServer.certSANs")
	}
	for _, name := range slices.Concat(config.Etcd.ServerCertSANs, config.Etcd.PeerCertSANs) {
		c.addControlPlane(name, "a name of etcd's certificates")
	}
	if external := config.Etcd.External; external != nil {
		for _, endpoint := range slices.Concat(external.Endpoints, external.HTTPEndpoints) {
			c.addControlPlane(urlHost(endpoint), "an etcd member")
		}
	}
	return nil
}

func (c *cluster) addControlPlane(name, what string) {
	if key := normalize(name); key != "" && c.controlPlane[key] == "" {
		c.controlPlane[key] = what
	}
}

// trustsLabels reports whether kubelets cannot label their Node as one of a control plane.
func trustsLabels(apiServer []node.Arg) bool {
	const plugin = "NodeRestriction"
	enabled, isSet := node.LastArg(apiServer, "enable-admission-plugins")
	disabled, _ := node.LastArg(apiServer, "disable-admission-plugins")
	return (!isSet || slices.Contains(strings.Split(enabled, ","), plugin)) &&
		!slices.Contains(strings.Split(disabled, ","), plugin)
}

// serviceCIDRs adds the ranges of Service addresses that were added after the cluster was created.
func (r clusterReader) serviceCIDRs(ctx context.Context) error {
	found, err := r.List(ctx, state.Query{As: r.as,
		GVK: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR")})
	if apierrors.IsNotFound(err) {
		return nil // the API server was told not to serve them
	}
	if err != nil {
		return fmt.Errorf("reading the ranges of Services: %w", err)
	}
	for _, u := range found {
		cidrs, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "cidrs")
		networks, err := parseNetworks(strings.Join(cidrs, ","))
		if err != nil {
			return fmt.Errorf("reading ServiceCIDR %s: %w", u.GetName(), err)
		}
		r.c.services = append(r.c.services, networks...)
	}
	return nil
}

// apiServers adds the addresses that the API servers have published themselves, and the networks that this machine
// shares with them.
func (r clusterReader) apiServers(ctx context.Context) error {
	found, err := r.List(ctx, state.Query{As: r.as, Namespace: metav1.NamespaceDefault,
		GVK:           discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return fmt.Errorf("reading the addresses of the API servers: %w", err)
	}
	published := map[string]bool{}
	for _, u := range found {
		endpoints, _, _ := unstructured.NestedSlice(u.Object, "endpoints")
		for _, endpoint := range endpoints {
			fields, _ := endpoint.(map[string]any)
			addresses, _, _ := unstructured.NestedStringSlice(fields, "addresses")
			for _, address := range addresses {
				published[normalize(address)] = true
				r.c.controlPlane[normalize(address)] = apiServerAddress
			}
		}
	}
	own, err := r.Addresses(ctx)
	if err != nil {
		return err
	}
	interfaces := map[string]bool{}
	for _, a := range own {
		interfaces[a.Interface] = interfaces[a.Interface] || published[normalize(a.IP)]
	}
	for _, a := range own {
		address, err := netip.ParseAddr(a.IP)
		if err != nil || a.Bits == 0 || !interfaces[a.Interface] {
			continue
		}
		if network, err := address.Unmap().Prefix(a.Bits); err == nil && !slices.Contains(r.c.local, network) {
			r.c.local = append(r.c.local, network)
		}
	}
	return nil
}

// staticPods adds the addresses in the annotations of API servers and etcd members, which each node writes for itself.
func (r clusterReader) staticPods(ctx context.Context) error {
	found, err := r.List(ctx, state.Query{As: r.as, Namespace: metav1.NamespaceSystem,
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), LabelSelector: "tier=control-plane"})
	if err != nil {
		return fmt.Errorf("reading the Pods of the control plane: %w", err)
	}
	for _, u := range found {
		host, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
		annotations := u.GetAnnotations()
		endpoint := annotations[manifest.EndpointAnnotation]
		if endpoint != "" {
			r.c.addOwner(urlHost("https://"+endpoint), owner{host, "an API server on Node " + host})
		}
		for member := range strings.SplitSeq(annotations[manifest.EtcdURLAnnotation], ",") {
			r.c.addOwner(urlHost(member), owner{host, "an etcd member on Node " + host})
		}
	}
	return nil
}

// nodeList adds all Nodes. Odd entries of a status are neither names nor addresses.
func (r clusterReader) nodeList(ctx context.Context, trustLabels bool) error {
	found, err := r.List(ctx, state.Query{As: r.as, GVK: state.NodeKind,
		Fields: []string{"status.addresses"}})
	if err != nil {
		return fmt.Errorf("reading the names and addresses of the Nodes: %w", err)
	}
	for _, u := range found {
		name := u.GetName()
		_, labelled := u.GetLabels()[node.ControlPlaneLabel]
		n := knownNode{isControlPlane: labelled && trustLabels}
		r.c.addOwner(name, owner{name, "Node " + name})
		all, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
		for _, entry := range all {
			fields, _ := entry.(map[string]any)
			if address, _, _ := unstructured.NestedString(fields, "address"); address != "" {
				n.addresses = append(n.addresses, address)
				r.c.addOwner(address, owner{name, "Node " + name})
			}
		}
		r.c.nodes[name] = n
	}
	return nil
}

func (c *cluster) addOwner(name string, o owner) {
	if key := normalize(name); key != "" && !slices.Contains(c.owners[key], o) {
		c.owners[key] = append(c.owners[key], o)
	}
}

// otherOwner says who else than the Node has a name or an address; empty if nobody has.
func (c *cluster) otherOwner(key, name string) string {
	for _, o := range c.owners[key] {
		if o.node != name {
			return o.what
		}
	}
	return ""
}

// hasControlPlaneOwner reports whether a control plane node has a name.
func (c *cluster) hasControlPlaneOwner(key string) bool {
	return slices.ContainsFunc(c.owners[key], func(o owner) bool { return c.nodes[o.node].isControlPlane })
}

// normalize is the form in which names and addresses are compared.
func normalize(name string) string {
	if address, err := netip.ParseAddr(name); err == nil {
		return address.Unmap().WithZone("").String()
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

func urlHost(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Hostname()
	}
	return ""
}

// parseNetworks parses a list of CIDRs that is separated by commas and may be empty.
func parseNetworks(list string) (networks []netip.Prefix, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%s is not a CIDR", untrusted.Quote(text))
		}
		networks = append(networks, network)
	}
	return networks, nil
}
