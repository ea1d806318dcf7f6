package etcdcluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Client is how a control plane node reaches the etcd cluster that its API server uses.
type Client struct {
	state.Etcd
	// External is set if kubeadm does not run the members.
	External bool
	// EncryptionConfig is the file of the API server's --encryption-provider-config, as a path on this
	// machine; empty for none.
	EncryptionConfig string
}

// ReadClient reads from the manifest of this machine's API server how that reaches etcd. Paths are those
// of the files on this machine, which may be elsewhere in the container. With an etcd
// member of this machine, the members that it joined are endpoints too, after those of the API server.
func ReadClient(ctx context.Context, r state.Reader, p node.Paths) (Client, error) {
	server, err := readStaticPod(ctx, r, p, release.APIServer)
	if err != nil {
		return Client{}, err
	}
	c := Client{Etcd: state.Etcd{
		Endpoints: splitList(manifest.ArgumentValue(server, "etcd-servers")),
		CAFile:    manifest.ArgumentValue(server, "etcd-cafile"),
		CertFile:  manifest.ArgumentValue(server, "etcd-certfile"),
		KeyFile:   manifest.ArgumentValue(server, "etcd-keyfile"),
	}, EncryptionConfig: manifest.ArgumentValue(server, "encryption-provider-config")}
	for _, file := range []*string{&c.CAFile, &c.CertFile, &c.KeyFile, &c.EncryptionConfig} {
		if host, ok := manifest.HostPath(server, *file); ok {
			*file = host
		}
	}
	if len(c.Endpoints) == 0 {
		return c, problem.New(fmt.Errorf("%s does not set --etcd-servers", p.Manifest(release.APIServer)),
			"restore the file from a backup in "+p.Tmp())
	}
	local, err := state.Exists(ctx, r, p.Manifest(manifest.Etcd))
	if err != nil {
		return c, err
	}
	if c.External = !local; c.External {
		return c, nil
	}
	own, err := readStaticPod(ctx, r, p, manifest.Etcd)
	if err != nil {
		return c, err
	}
	for _, url := range initialClientURLs(own) {
		if !slices.Contains(c.Endpoints, url) {
			c.Endpoints = append(c.Endpoints, url)
		}
	}
	return c, nil
}

// initialClientURLs returns the client URLs of the members of --initial-cluster.
func initialClientURLs(pod *corev1.Pod) (urls []string) {
	clients := splitList(manifest.ArgumentValue(pod, "advertise-client-urls"))
	if len(clients) == 0 {
		return nil
	}
	for _, member := range splitList(manifest.ArgumentValue(pod, "initial-cluster")) {
		_, peer, _ := strings.Cut(member, "=")
		urls = append(urls, ClientURLsLike(clients[0], peer)...)
	}
	return urls
}

// ClientURLsLike returns the client URLs of members of which only peer URLs are known: they have the same
// port as the client URL of this machine's member.
func ClientURLsLike(own string, peers ...string) (urls []string) {
	client, err := url.Parse(own)
	if err != nil {
		return nil
	}
	for _, text := range peers {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			u.Host = net.JoinHostPort(u.Hostname(), client.Port())
			urls = append(urls, u.String())
		}
	}
	return urls
}

func readStaticPod(ctx context.Context, r state.Reader, p node.Paths,
	component string) (*corev1.Pod, error) {
	file := p.Manifest(component)
	data, err := r.ReadFile(ctx, file)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, problem.During("reading "+file, err, "restore the file from a backup in "+p.Tmp())
	}
	return &pod, nil
}

// LocalClient returns the endpoints with the client certificate of this control plane.
func LocalClient(p node.Paths, endpoints ...string) state.Etcd {
	return state.Etcd{
		Endpoints: endpoints,
		CAFile:    p.Cert("etcd/ca"),
		CertFile:  p.Cert("etcd/healthcheck-client"),
		KeyFile:   p.Key("etcd/healthcheck-client"),
	}
}

// FindEndpoints returns the client URLs of the etcd members that run on control planes. It reads
// them from an annotation of their Pods. As the kubelet of any node can create such a Pod, only URLs of
// servers that must prove who they are, by TLS, are returned.
func FindEndpoints(ctx context.Context, r state.Reader, as state.Identity) ([]string, error) {
	pods, err := r.List(ctx, state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "kube-system",
		LabelSelector: "component=etcd,tier=control-plane", As: as,
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the Pods of etcd: %w", err)
	}
	var urls []string
	for _, p := range pods {
		text, _, _ := unstructured.NestedString(p.Object, "metadata", "annotations",
			manifest.EtcdURLAnnotation)
		if u, err := url.Parse(text); err == nil && u.Scheme == "https" && u.Port() != "" && u.Hostname() != "" &&
			u.User == nil && strings.Trim(u.Path, "/") == "" {
			urls = append(urls, text)
		}
	}
	return urls, nil
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// ReadLocalPeerURLs returns the peer URLs of this machine's member, by its manifest.
func ReadLocalPeerURLs(ctx context.Context, r state.Reader, p node.Paths) ([]string, error) {
	own, err := readStaticPod(ctx, r, p, manifest.Etcd)
	if err != nil {
		return nil, err
	}
	return splitList(manifest.ArgumentValue(own, "initial-advertise-peer-urls")), nil
}
