package manifest

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// EtcdURLAnnotation tells, on the Pod of an etcd member, where clients reach the member.
const EtcdURLAnnotation = "kubeadm.kubernetes.io/etcd.advertise-client-urls"

func etcd(n *node.Node, h Host, images release.Images) static {
	e := &n.Cluster.Etcd
	args := append(etcdArgs(n, h.Members), etcdChecks(images)...)
	return static{
		image:       images.EtcdImage(),
		command:     command(Etcd, args, e.Args),
		annotations: map[string]string{EtcdURLAnnotation: n.ClientURL()},
		env:         mergeEnv(e.Envs),
		volumes: []node.Volume{
			sameDir("etcd-data", e.DataDir, false),
			sameDir("etcd-certs", n.Paths.Certificates+"/etcd", false),
		},
		probes: etcdProbes(n),
		cpu:    "100m",
		memory: "100Mi",
	}
}

func etcdArgs(n *node.Node, members []state.Member) []node.Arg {
	p := n.Paths
	args := []node.Arg{
		{Name: "advertise-client-urls", Value: n.ClientURL()},
		{Name: "cert-file", Value: p.Cert("etcd/server")},
		{Name: "client-cert-auth", Value: "true"},
		{Name: "data-dir", Value: n.Cluster.Etcd.DataDir},
		{Name: "initial-advertise-peer-urls", Value: n.PeerURL()},
		{Name: "initial-cluster", Value: initialCluster(n, members)},
		{Name: "key-file", Value: p.Key("etcd/server")},
		{Name: "listen-client-urls", Value: etcdURL("https", n.Loopback(), 2379) + "," + n.ClientURL()},
		{Name: "listen-metrics-urls", Value: etcdURL("http", n.Loopback(), 2381)},
		{Name: "listen-peer-urls", Value: n.PeerURL()},
		{Name: "name", Value: n.Name},
		{Name: "peer-cert-file", Value: p.Cert("etcd/peer")},
		{Name: "peer-client-cert-auth", Value: "true"},
		{Name: "peer-key-file", Value: p.Key("etcd/peer")},
		{Name: "peer-trusted-ca-file", Value: p.Cert("etcd/ca")},
		{Name: "snapshot-count", Value: "10000"},
		{Name: "trusted-ca-file", Value: p.Cert("etcd/ca")},
	}
	if len(members) > 0 {
		args = append(args, node.Arg{Name: "initial-cluster-state", Value: "existing"})
	}
	return args
}

// etcdChecks turn on what etcd does not do by itself: a look at its data before it serves them, and frequent news
// of progress to watchers. The arguments had other names once.
func etcdChecks(images release.Images) []node.Arg {
	if images.EtcdVersion().Minor() < 6 {
		return []node.Arg{
			{Name: "experimental-initial-corrupt-check", Value: "true"},
			{Name: "experimental-watch-progress-notify-interval", Value: "5s"},
		}
	}
	return []node.Arg{
		{Name: "feature-gates", Value: "InitialCorruptCheck=true"},
		{Name: "watch-progress-notify-interval", Value: "5s"},
	}
}

// initialCluster is "name=peerURL" of this member alone, or of all members when it
// joins some. A member that has not started yet has no name: this one gets its own,
// others their ID.
func initialCluster(n *node.Node, members []state.Member) string {
	if len(members) == 0 {
		return n.Name + "=" + n.PeerURL()
	}
	var list []string
	for _, m := range members {
		name := m.Name
		switch {
		case slices.Contains(m.PeerURLs, n.PeerURL()):
			name = n.Name
		case name == "":
			name = strconv.FormatUint(m.ID, 16)
		}
		for _, peer := range m.PeerURLs {
			list = append(list, name+"="+peer)
		}
	}
	return strings.Join(list, ",")
}

func etcdURL(scheme, host string, port int) string {
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port))
}
