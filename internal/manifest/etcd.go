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

// EtcdURLAnnotation is the client URL of an etcd member, as an annotation of its Pod.
const EtcdURLAnnotation = "kubeadm.kubernetes.io/etcd.advertise-client-urls"

func etcdPod(n *node.Node, h Host, images release.Images) componentPod {
	e, p := &n.Cluster.Etcd, n.Paths
	args := []node.Arg{
		{Name: "advertise-client-urls", Value: n.ClientURL()},
		{Name: "cert-file", Value: p.Cert("etcd/server")},
		{Name: "client-cert-auth", Value: "true"},
		{Name: "data-dir", Value: e.DataDir},
		{Name: "initial-advertise-peer-urls", Value: n.PeerURL()},
		{Name: "initial-cluster", Value: initialCluster(n, h.Members)},
		{Name: "key-file", Value: p.Key("etcd/server")},
		{Name: "listen-client-urls", Value: etcdURL("https", n.LoopbackAddress(), 2379) + "," +
			n.ClientURL()},
		{Name: "listen-metrics-urls", Value: etcdURL("http", n.LoopbackAddress(), 2381)},
		{Name: "listen-peer-urls", Value: n.PeerURL()},
		{Name: "name", Value: n.Name},
		{Name: "peer-cert-file", Value: p.Cert("etcd/peer")},
		{Name: "peer-client-cert-auth", Value: "true"},
		{Name: "peer-key-file", Value: p.Key("etcd/peer")},
		{Name: "peer-trusted-ca-file", Value: p.Cert("etcd/ca")},
		{Name: "snapshot-count", Value: "10000"},
		{Name: "trusted-ca-file", Value: p.Cert("etcd/ca")},
	}
	if len(h.Members) > 0 {
		args = append(args, node.Arg{Name: "initial-cluster-state", Value: "existing"})
	}
	// Off by default are the corruption check at startup, and frequent progress notifications to
	// watchers. Their arguments were renamed in etcd 3.6.
	if images.EtcdVersion().Minor() < 6 {
		args = append(args,
			node.Arg{Name: "experimental-initial-corrupt-check", Value: "true"},
			node.Arg{Name: "experimental-watch-progress-notify-interval", Value: "5s"})
	} else {
		args = append(args,
			node.Arg{Name: "feature-gates", Value: "InitialCorruptCheck=true"},
			node.Arg{Name: "watch-progress-notify-interval", Value: "5s"})
	}
	return componentPod{
		image:       images.EtcdImage(),
		args:        mergeArgs(args, e.Args),
		annotations: map[string]string{EtcdURLAnnotation: n.ClientURL()},
		env:         mergeEnv(e.Envs),
		volumes: []node.Volume{
			dirVolume("etcd-data", e.DataDir, false),
			dirVolume("etcd-certs", p.Certificates+"/etcd", false),
		},
		probes: etcdProbes(n),
		cpu:    "100m",
		memory: "100Mi",
	}
}

// initialCluster is "name=peerURL" of this member alone, or of all members if it joins a cluster.
// A member that has not started has no name: this member gets its own, others their ID.
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
