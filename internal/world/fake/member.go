package fake

import (
	"context"
	"regexp"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

const (
	etcdManifest = "/etc/kubernetes/manifests/etcd.yaml"
	etcdData     = "/var/lib/etcd/member"
)

var (
	memberName = regexp.MustCompile(`--name=(\S+)`)
	memberPeer = regexp.MustCompile(`--initial-advertise-peer-urls=(\S+)`)
	memberURL  = regexp.MustCompile(`--advertise-client-urls=(\S+)`)
)

// Members lists the etcd members. The member of this machine has a name once the kubelet has
// started its static Pod.
func (w *World) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	all, err := w.World.Members(ctx, via)
	own := w.ownMember(ctx)
	for i, m := range all {
		if len(m.PeerURLs) > 0 && m.PeerURLs[0] == own.PeerURLs[0] && m.Name == "" &&
			w.hasFile(etcdData) {
			all[i].Name, all[i].ClientURLs = own.Name, own.ClientURLs
		}
	}
	return all, err
}

// ownMember returns the etcd member of this machine according to its manifest.
func (w *World) ownMember(ctx context.Context) state.Member {
	text, _ := w.ReadFile(ctx, etcdManifest)
	value := func(of *regexp.Regexp) string {
		if found := of.FindSubmatch(text); found != nil {
			return string(found[1])
		}
		return ""
	}
	return state.Member{Name: value(memberName), PeerURLs: []string{value(memberPeer)},
		ClientURLs: []string{value(memberURL)}}
}

// startMember creates the data directory of this machine's etcd member if it was added and the
// kubelet runs it.
func (w *World) startMember(ctx context.Context) error {
	if w.hasFile(etcdData) || !w.isRunning(ctx, "etcd") {
		return nil
	}
	all, _ := w.World.Members(ctx, state.Etcd{})
	own := w.ownMember(ctx)
	for _, m := range all {
		if len(m.PeerURLs) > 0 && m.PeerURLs[0] == own.PeerURLs[0] {
			return w.World.Do(ctx, change.MakeDir{Path: etcdData, Mode: 0o700})
		}
	}
	return nil
}
