package fake

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

const (
	apiServerManifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	etcdManifest      = "/etc/kubernetes/manifests/etcd.yaml"
	etcdData          = "/var/lib/etcd/member"
)

var (
	memberName = regexp.MustCompile(`--name=(\S+)`)
	memberPeer = regexp.MustCompile(`--initial-advertise-peer-urls=(\S+)`)
	memberURL  = regexp.MustCompile(`--advertise-client-urls=(\S+)`)
	clientCA   = regexp.MustCompile(`--client-ca-file=(\S+)/ca\.crt`)
)

// certificatesDir is the directory of the certificates that the static Pods of this machine use.
func (w *World) certificatesDir(ctx context.Context) string {
	text, _ := w.ReadFile(ctx, apiServerManifest)
	if found := clientCA.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return "/etc/kubernetes/pki"
}

// checkClientFiles returns a permanent error, as a real client does, if a file of its certificate cannot be read. Machines
// that are not complete are not asked for these files.
func (w *World) checkClientFiles(ctx context.Context, via state.Etcd) error {
	for _, file := range []string{via.CAFile, via.CertFile, via.KeyFile} {
		if file == "" || !w.EtcdClientFiles {
			continue
		}
		if _, err := w.ReadFile(ctx, file); err != nil {
			return world.Permanent(fmt.Errorf("reading the client certificate for etcd: %w", err))
		}
	}
	return nil
}

// MemberStatus asks a member if the files of the client certificate exist.
func (w *World) MemberStatus(ctx context.Context, via state.Etcd, m state.Member) (state.MemberStatus, error) {
	if err := w.checkClientFiles(ctx, via); err != nil {
		return state.MemberStatus{}, err
	}
	return w.World.MemberStatus(ctx, via, m)
}

// Members lists the etcd members. The member of this machine has a name once the kubelet has
// started its static Pod.
func (w *World) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if err := w.checkClientFiles(ctx, via); err != nil {
		return nil, fmt.Errorf("listing etcd members: %w", err)
	}
	own := w.ownMember(ctx)
	if w.listensElsewhere(own, via.Endpoints) {
		return nil, fmt.Errorf("dial tcp %s: connect: connection refused", via.Endpoints[0])
	}
	all, err := w.World.Members(ctx, via)
	for i, m := range all {
		isOwn := len(m.PeerURLs) > 0 && m.PeerURLs[0] == own.PeerURLs[0]
		if isOwn && m.Name == "" && w.hasFile(etcdData) {
			all[i].Name, all[i].ClientURLs = own.Name, own.ClientURLs
		} else if isOwn && m.Name == own.Name { // which it publishes at each start
			all[i].ClientURLs = own.ClientURLs
		} else if isOwn && w.registeredName(ctx) != w.NodeName { // so the kubelet has started it again
			all[i].Name = own.Name
		}
	}
	return all, err
}

// listensElsewhere reports whether all endpoints are of this machine, but of addresses at which its member does not
// listen.
func (w *World) listensElsewhere(own state.Member, endpoints []string) bool {
	listens := node.HostOf(own.ClientURLs[0])
	for _, endpoint := range endpoints {
		host := node.HostOf(endpoint)
		isOwn := slices.ContainsFunc(w.Interfaces, func(a state.Address) bool { return a.IP == host })
		if !isOwn || host == listens {
			return false
		}
	}
	return len(endpoints) > 0 && listens != ""
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
// kubelet runs it. With data of another cluster it is a member of that one.
func (w *World) startMember(ctx context.Context) error {
	if !w.isRunning(ctx, "etcd") {
		return nil
	}
	if w.hasFile(etcdData) {
		w.clusters.mu.Lock() // phases run in parallel
		defer w.clusters.mu.Unlock()
		w.forceNewCluster(ctx)
		return w.useData(ctx)
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

// isIsolated reports whether the member of this machine runs at the address from which it does not reach the others.
func (w *World) isIsolated(ctx context.Context) bool {
	return w.IsolatedAddress != "" && node.HostOf(w.ownMember(ctx).PeerURLs[0]) == w.IsolatedAddress
}

// isDown reports whether a host is that of a member that does not answer, other than this machine.
func (w *World) isDown(host string) bool {
	return host != w.Interfaces[0].IP && slices.ContainsFunc(w.MemberList, func(m state.Member) bool {
		return slices.Contains(w.UnreachableMembers, m.ID) &&
			slices.ContainsFunc(m.PeerURLs, func(url string) bool { return strings.Contains(url, "//"+host+":") })
	})
}

// useData switches to the cluster of the data on disk. A restored one has this member alone.
func (w *World) useData(ctx context.Context) error {
	text, err := state.ReadOptional(ctx, w, etcdData+"/"+memory.RestoredFile)
	token, number, _ := strings.Cut(string(text), " ")
	if err != nil || token == w.clusters.current {
		return err
	}
	w.clusters.members[w.clusters.current] = w.MemberList
	w.clusters.current = token
	list, known := w.clusters.members[token]
	if !known {
		own := w.ownMember(ctx)
		own.ID = uint64(100 + len(w.clusters.members))
		list = []state.Member{own}
		status := state.MemberStatus{AppliedIndex: 1, CommittedIndex: 1, Leader: own.ID, Version: "3.7.0"}
		if status.Revision, err = strconv.ParseInt(number, 10, 64); err != nil {
			return err
		}
		if w.MemberStatuses == nil {
			w.MemberStatuses = map[uint64]state.MemberStatus{}
		}
		w.MemberStatuses[own.ID] = status
	}
	w.MemberList = list
	return nil
}

// forceNewCluster leaves this machine's member alone if its manifest says so, when it starts with that.
func (w *World) forceNewCluster(ctx context.Context) {
	text, _ := w.ReadFile(ctx, etcdManifest)
	isForced := bytes.Contains(text, []byte("--force-new-cluster=true"))
	if isForced == w.clusters.forced {
		return
	}
	w.clusters.forced = isForced
	if !isForced {
		return
	}
	own := w.ownMember(ctx)
	w.MemberList = slices.DeleteFunc(slices.Clone(w.MemberList),
		func(m state.Member) bool { return !slices.Equal(m.PeerURLs, own.PeerURLs) })
}

// etcdClusters are the clusters whose data this machine has had, by their tokens; that of the first one
// is empty.
type etcdClusters struct {
	mu      *sync.Mutex
	current string
	forced  bool                      // etcd was started with --force-new-cluster
	members map[string][]state.Member // of those that are not current
}
