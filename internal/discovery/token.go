// Package discovery finds the cluster that a machine is to join, and believes nothing
// that it cannot verify.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/world"
)

// byToken asks the endpoint for cluster-info until one is verified by the token and the pins.
func byToken(ctx context.Context, e *flow.Env, j node.Join) (*api.Cluster, error) {
	id, secret, ok := strings.Cut(j.Token, ".")
	switch {
	case !ok:
		return nil, errors.New("the discovery token has no dot between its two halves")
	case len(j.CACertHashes) == 0 && !j.UnsafeNoPins:
		return nil, problem.New("", errors.New("no pin says which CA the cluster has"),
			fmt.Sprintf("set --%s, or --%s where no other machine can be in between", flag.DiscoveryTokenHash, flag.DiscoveryTokenUnsafe))
	}
	c := &clusterInfo{server: "https://" + j.Endpoint, id: id, secret: secret, pins: j.CACertHashes, remedy: mint(e.Local), say: e.Say}
	err := await(ctx, e, world.Condition{
		Name:    fmt.Sprintf("the cluster at %s to answer, with a cluster-info that is signed with token %s", j.Endpoint, id),
		Timeout: e.Local.Timeouts.Discovery,
		Check:   c.verify,
	})
	if err != nil {
		return nil, reachable(c.server, err)
	}
	return c.cluster, nil
}
