package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// EndpointAnnotation is the annotation of a kube-apiserver Pod with its "host:port".
const EndpointAnnotation = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"

// defaultAdmissionPlugins are those that are enabled unless enable-admission-plugins is given.
const defaultAdmissionPlugins = "NodeRestriction"

func apiServerPod(n *node.Node, h Host) componentPod {
	c := &n.Cluster.APIServer
	volumes := certificateVolumes(n, h)
	for i, dir := range externalEtcdDirs(n) {
		volumes = append(volumes, dirVolume(fmt.Sprintf("etcd-certs-%d", i), dir, true))
	}
	return componentPod{
		args:        mergeArgs(apiServerArgs(n), c.Args),
		annotations: map[string]string{EndpointAnnotation: n.APIEndpoint()},
		env:         mergeEnv(h.proxyEnv(), c.Envs),
		volumes:     mergeVolumes(volumes, c.Volumes),
		probes:      httpsProbes(n.Address, n.BindPort),
		cpu:         "250m",
	}
}

func apiServerArgs(n *node.Node) []node.Arg {
	p := n.Paths
	args := []node.Arg{
		{Name: "advertise-address", Value: n.Address},
		{Name: "allow-privileged", Value: "true"},
		{Name: "client-ca-file", Value: p.Cert("ca")},
		{Name: "enable-admission-plugins", Value: defaultAdmissionPlugins},
		{Name: "enable-bootstrap-token-auth", Value: "true"},
		{Name: "kubelet-client-certificate", Value: p.Cert("apiserver-kubelet-client")},
		{Name: "kubelet-client-key", Value: p.Key("apiserver-kubelet-client")},
		{Name: "kubelet-preferred-address-types", Value: "InternalIP,ExternalIP,Hostname"},
		{Name: "proxy-client-cert-file", Value: p.Cert("front-proxy-client")},
		{Name: "proxy-client-key-file", Value: p.Key("front-proxy-client")},
		{Name: "requestheader-allowed-names", Value: "front-proxy-client"},
		{Name: "requestheader-client-ca-file", Value: p.Cert("front-proxy-ca")},
		{Name: "requestheader-extra-headers-prefix", Value: "X-Remote-Extra-"},
		{Name: "requestheader-group-headers", Value: "X-Remote-Group"},
		{Name: "requestheader-username-headers", Value: "X-Remote-User"},
		{Name: "secure-port", Value: strconv.Itoa(int(n.BindPort))},
		{Name: "service-account-issuer",
			Value: "https://kubernetes.default.svc." + n.Cluster.DNSDomain},
		{Name: "service-account-key-file", Value: p.Certificate(pki.ServiceAccountPublicKey)},
		{Name: "service-account-signing-key-file", Value: p.Key("sa")},
		{Name: "service-cluster-ip-range", Value: n.Cluster.ServiceSubnet},
		{Name: "tls-cert-file", Value: p.Cert("apiserver")},
		{Name: "tls-private-key-file", Value: p.Key("apiserver")},
	}
	// The API server does not accept both authorization-mode and authorization-config.
	if _, ok := node.LastArg(n.Cluster.APIServer.Args, "authorization-config"); !ok {
		args = append(args, node.Arg{Name: "authorization-mode", Value: "Node,RBAC"})
	}
	e := n.Cluster.Etcd.External
	if e == nil {
		servers, ok := node.LastArg(n.Cluster.Etcd.Args, "advertise-client-urls")
		if !ok {
			servers = etcdURL("https", n.LoopbackAddress(), 2379)
		}
		return append(args,
			node.Arg{Name: "etcd-cafile", Value: p.Cert("etcd/ca")},
			node.Arg{Name: "etcd-certfile", Value: p.Cert("apiserver-etcd-client")},
			node.Arg{Name: "etcd-keyfile", Value: p.Key("apiserver-etcd-client")},
			node.Arg{Name: "etcd-servers", Value: servers})
	}
	args = append(args, node.Arg{Name: "etcd-servers", Value: strings.Join(e.Endpoints, ",")})
	if e.CAFile != "" {
		args = append(args, node.Arg{Name: "etcd-cafile", Value: e.CAFile})
	}
	if e.CertFile != "" && e.KeyFile != "" {
		args = append(args,
			node.Arg{Name: "etcd-certfile", Value: e.CertFile},
			node.Arg{Name: "etcd-keyfile", Value: e.KeyFile})
	}
	return args
}
