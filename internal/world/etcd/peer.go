package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// maxMembersAnswer limits the answer of a peer, in bytes.
const maxMembersAnswer = 1 << 20

// membersOfPeer asks a member for the members that it knows at its peer URL. One that was started without
// a quorum serves no clients before there is a quorum, but answers other members
// (server/etcdserver/api/etcdhttp/peer.go in etcd's repository).
func (k *Cluster) membersOfPeer(ctx context.Context, via state.Etcd) (all []state.Member, err error) {
	config, err := k.loadTLSConfig(via)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout+callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, via.Peer+"/members", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true,
		DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext, TLSHandshakeTimeout: handshakeTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return nil, untrusted.Error(err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("at %s: %s", via.Peer, untrusted.Line(answer.Status))
	}
	var listed []struct {
		ID         uint64   `json:"id"`
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxMembersAnswer)).Decode(&listed); err != nil {
		return nil, fmt.Errorf("at %s: %w", via.Peer, untrusted.Error(err))
	}
	for _, m := range listed {
		all = append(all, state.Member{ID: m.ID, Name: untrusted.Line(m.Name), PeerURLs: m.PeerURLs,
			ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	}
	return all, nil
}
