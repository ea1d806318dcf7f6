package reset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/state"
)

// localMember is this machine's etcd member, as its manifest describes it.
type localMember struct {
	peers   []string   // peer URLs, also those of an interrupted move to another address
	clients []string   // client URLs
	initial []string   // peer URLs of --initial-cluster
	via     state.Etcd // credentials, without endpoints
}

func newLocalMember(ctx context.Context, e *engine.Env, pod *corev1.Pod) (localMember, error) {
	paths := e.Local.Paths
	if file, ok := strings.CutSuffix(manifest.ArgumentValue(pod, "trusted-ca-file"), "/etcd/ca.crt"); ok {
		paths.Certificates = file // not that of --cert-dir, which names the files to remove
	}
	peers, err := nodeaddress.ListPeerURLs(ctx, e.World, paths,
		splitCommas(manifest.ArgumentValue(pod, "initial-advertise-peer-urls")))
	l := localMember{
		peers:   peers,
		clients: splitCommas(manifest.ArgumentValue(pod, "advertise-client-urls")),
		via:     etcdcluster.LocalClient(paths),
	}
	for _, member := range splitCommas(manifest.ArgumentValue(pod, "initial-cluster")) {
		if _, url, ok := strings.Cut(member, "="); ok {
			l.initial = append(l.initial, url)
		}
	}
	return l, err
}

// matches reports whether m is this member.
func (l localMember) matches(m state.Member) bool {
	return slices.ContainsFunc(m.PeerURLs,
		func(url string) bool { return slices.Contains(l.peers, url) })
}

// apiTimeout is the time for the API server, which is asked last and may be broken.
const apiTimeout = 5 * time.Second

// checkMembers checks the health of all members. It takes their list from this member, else from
// those that it joined, else from the etcd Pods in the API server. A stale list will do.
func (l localMember) checkMembers(ctx context.Context, e *engine.Env) (etcdcluster.Health, error) {
	via := l.via
	via.Serializable = true
	via.Endpoints = slices.Concat(l.clients, l.initialClientURLs())
	members, failed := etcdcluster.CheckHealth(ctx, e.World, via)
	if failed == nil {
		return members, nil
	}
	as, err := e.Admin(ctx)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		via.Endpoints, err = etcdcluster.FindEndpoints(limited, e.World, as)
	}
	if err == nil {
		members, err = etcdcluster.CheckHealth(ctx, e.World, via)
	}
	if err != nil {
		err = fmt.Errorf("%w; %w", failed, err)
	}
	return members, err
}

// initialClientURLs returns the client URLs of the members that this one joined.
func (l localMember) initialClientURLs() []string {
	if len(l.clients) == 0 {
		return nil
	}
	return etcdcluster.ClientURLsLike(l.clients[0], slices.DeleteFunc(slices.Clone(l.initial),
		func(url string) bool { return slices.Contains(l.peers, url) })...)
}

// viaOthers returns a client of the others, with the healthy ones first.
func (l localMember) viaOthers(members etcdcluster.Health, others []state.Member) state.Etcd {
	var healthy, rest []string
	for _, m := range others {
		if members.Unhealthy[m.ID] == nil {
			healthy = append(healthy, m.ClientURLs...)
		} else {
			rest = append(rest, m.ClientURLs...)
		}
	}
	via := l.via
	via.Endpoints = append(healthy, rest...)
	return via
}

func splitCommas(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
