package renew

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// quorumTimeout is how long etcd may take to elect a leader when enough members can be reached. A
// member connects to the others again every few seconds.
const quorumTimeout = 30 * time.Second

// lostQuorum is the error of an etcd cluster that cannot have a quorum as the certificates of so many
// members have expired.
type lostQuorum struct {
	nodes []string // names of these members, which are those of their nodes
	of    int      // number of all voting members
}

func (l *lostQuorum) Error() string {
	return fmt.Sprintf("the certificates of %d of %d members have expired (%s)", len(l.nodes), l.of,
		strings.Join(l.nodes, ", "))
}

// quorum is met once enough members of the local etcd cluster are healthy.
func quorum(n *node.Node) world.Condition {
	via := etcdcluster.LocalClient(n.Paths, n.ClientURL())
	via.Serializable = true // also answered without a quorum
	return world.Condition{
		Name: "a quorum of etcd", Timeout: quorumTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			found, err := etcdcluster.CheckHealth(ctx, r, via)
			if err != nil {
				return err
			}
			if len(found.UnhealthyVoters()) == 0 || found.CheckQuorum() == nil {
				return nil
			}
			lost := &lostQuorum{}
			for _, m := range found.Members {
				if m.Learner {
					continue
				}
				lost.of++
				if found.Unhealthy[m.ID] != nil && hasExpired(ctx, r, m) {
					lost.nodes = append(lost.nodes, etcdcluster.MemberName(m))
				}
			}
			if left := lost.of - len(lost.nodes); len(lost.nodes) > 0 && left < lost.of/2+1 {
				return world.Permanent(lost)
			}
			return found.CheckQuorum()
		},
	}
}

// hasExpired reports whether a member serves an expired certificate to other members.
func hasExpired(ctx context.Context, r state.Reader, m state.Member) bool {
	for _, text := range m.PeerURLs {
		address, err := url.Parse(text)
		if err != nil {
			continue
		}
		served, err := r.ServedCertificate(ctx, address.Host)
		if err == nil && r.Now().After(served.NotAfter) {
			return true
		}
	}
	return false
}

// explainNoQuorum adds what to do about an etcd cluster whose members do not answer.
func explainNoQuorum(n *node.Node, err error) error {
	return problem.New(fmt.Errorf("the certificates were renewed, but kube-apiserver cannot start: %w", err),
		"start etcd on the other control plane nodes; where the kubelet is not running because its "+
			"certificate has expired: kubeadm certs renew all --restart",
		"then re-run the command here",
		untrusted.CommandHint("list the containers", "crictl --runtime-endpoint %s ps -a", n.CRISocket))
}
