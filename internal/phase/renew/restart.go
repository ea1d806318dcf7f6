package renew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/certuse"
	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// RestartStale replaces the client certificate of a kubelet that can no longer rotate it, restarts
// the components of this control plane that use a certificate from before its renewal, and reports
// the nodes that have stopped reporting. The kubelet comes first: static Pods need one that runs.
var RestartStale = engine.Phase{
	Name:  "restart",
	Short: "Restart the components that still use a pre-renewal certificate",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		hadExpired, err := localkubelet.Repair(ctx, e.Named("kubelet"), n)
		if err != nil {
			return err
		}
		s := &staleRestart{node: n, as: as, kubeletHadExpired: hadExpired}
		live, err := s.restartStale(ctx, e)
		if err != nil || !live {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return reportNodes(ctx, e.Named("nodes"), as, hadExpired)
	},
}

// staleRestart is one run of RestartStale.
type staleRestart struct {
	node  *node.Node
	as    state.Identity
	known []certuse.Use // those of which can be found out which certificate they use
	// kubeletHadExpired is that the kubelet's client certificate had expired or was missing.
	kubeletHadExpired bool
}

// restartStale restarts the components of this control plane that use a certificate from before
// its renewal, one after the other, and says which certificates they serve or log in with then.
//
// etcd reads its certificates for each connection, and kube-apiserver reads them again when the
// files change, those of its clients too. They are restarted only if they do not serve what is on
// disk, or have exited. One that refuses connections while it starts is waited for.
// kube-controller-manager and kube-scheduler read their kubeconfigs when they start.
//
// While etcd has no quorum because the certificates of other members have expired, kube-apiserver
// cannot become healthy: then it says on which nodes to go on, and does not wait for it. An etcd
// without a quorum serves the certificate for other members, but does not answer clients.
//
// It returns whether this node has a kube-apiserver, which is live then.
func (s *staleRestart) restartStale(ctx context.Context, e *engine.Env) (live bool, err error) {
	uses, err := certuse.ListUses(ctx, e, s.node)
	if err != nil {
		return false, err
	}
	if len(uses) == 0 {
		e.Warn("no component was restarted: this machine has no control plane static Pods")
		return false, nil
	}
	if peer := uses[0]; peer.Component == manifest.Etcd {
		if err := s.restartEtcd(ctx, e, peer); err != nil {
			return false, err
		}
		err := e.Await(ctx, quorum(s.node))
		if err != nil && ctx.Err() == nil {
			return false, s.withoutQuorum(ctx, e, uses, err)
		}
		if err != nil {
			return false, err
		}
		uses = uses[1:]
	}
	stale, err := s.findStale(ctx, e, uses)
	if err != nil {
		return false, err
	}
	if len(stale) > 0 {
		err := s.lock().HoldIfReachable(ctx, e, func(ctx context.Context, e *engine.Env) error {
			return staticpod.Replacement{Node: s.node, As: s.as}.Restart(ctx, e, stale...)
		})
		if err != nil {
			return false, err
		}
	}
	if live = slices.ContainsFunc(uses,
		func(u certuse.Use) bool { return u.Component == release.APIServer }); live {
		// One that the kubelet has restarted serves its certificate seconds before it is live.
		if err := e.Await(ctx, health.APIServer(s.node, s.as)); err != nil {
			return false, health.WithComponentHints(s.node, err)
		}
	}
	return live, s.report(ctx, e)
}

// findStale returns the components that use an old certificate or have exited, and adds to known.
func (s *staleRestart) findStale(ctx context.Context, e *engine.Env, uses []certuse.Use) ([]string, error) {
	var stale []string
	for _, u := range uses {
		err := e.Await(ctx, u.Condition(s.node))
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if errors.Is(err, certuse.ErrStarting) {
			e.Say("%s is not restarted: %v", u.Component, err)
			s.known = append(s.known, u)
			continue
		}
		if err != nil && !errors.As(err, new(certuse.StaleError)) {
			e.Warn("%s was not restarted, because it is unknown which certificate it uses: %v",
				u.Component, err)
			continue
		}
		s.known = append(s.known, u)
		if err != nil && !slices.Contains(stale, u.Component) {
			e.Say("%s must be restarted: %v", u.Component, err)
			stale = append(stale, u.Component)
		}
	}
	return stale, nil
}

// restartEtcd restarts the local etcd if it serves an old certificate to other members or has exited,
// and waits until it serves the new one. It does not wait until etcd is healthy: without a quorum it
// never is.
func (s *staleRestart) restartEtcd(ctx context.Context, e *engine.Env, peer certuse.Use) error {
	if c, err := peer.NewestContainer(ctx, e.World, s.node); err == nil && !c.Running {
		// A kubelet that has just started asks kube-apiserver before it starts etcd, and
		// kube-apiserver without etcd answers none of its requests: two minutes instead of six seconds.
		e.Say("stopping kube-apiserver, because it cannot answer without etcd")
		if err := e.Do(ctx, change.RemoveContainers{Socket: s.node.CRISocket,
			Component: release.APIServer}); err != nil {
			return err
		}
	}
	stale, err := s.findStale(ctx, e, []certuse.Use{peer})
	if err != nil || len(s.known) == 0 {
		return err
	}
	awaitStart := func(ctx context.Context, e *engine.Env) error {
		c := peer.Condition(s.node)
		c.Timeout = s.node.Timeouts.Upgrade
		if err := e.Await(ctx, c); err != nil {
			return health.WithComponentHints(s.node, fmt.Errorf("waiting for etcd to start: %w", err))
		}
		return nil
	}
	if len(stale) == 0 {
		return awaitStart(ctx, e)
	}
	return s.lock().HoldIfReachable(ctx, e, func(ctx context.Context, e *engine.Env) error {
		e.Say("restarting the static Pod of %s", manifest.Etcd)
		if err := e.Do(ctx, change.RemoveContainers{Socket: s.node.CRISocket,
			Component: manifest.Etcd, GracePeriod: etcdGracePeriod}); err != nil {
			return err
		}
		return awaitStart(ctx, e)
	})
}

// lock is the lock of the cluster, which a restart holds so that no other control plane node is
// changed meanwhile.
func (s *staleRestart) lock() clusterlock.Lock {
	shared := s.as
	shared.Server = "" // that of the kubeconfig: often a load balancer
	return clusterlock.Lock{Node: s.node.Name,
		Purpose: "restarting components that use old certificates",
		As:      []state.Identity{s.as, shared}}
}

// withoutQuorum ends the containers that use old certificates, so that the kubelet restarts them,
// and says what is left to do on other nodes. If their certificates have not expired, that is the
// error.
func (s *staleRestart) withoutQuorum(ctx context.Context, e *engine.Env, uses []certuse.Use,
	cause error) error {
	// kube-apiserver reads its certificates again, or the kubelet restarts it
	clients := slices.DeleteFunc(slices.Clone(uses), func(u certuse.Use) bool { return u.Server != "" })
	stale, err := s.findStale(ctx, e, clients)
	if err != nil {
		return err
	}
	for _, component := range stale {
		e.Say("restarting the static Pod of %s", component)
		if err := e.Do(ctx, change.RemoveContainers{Socket: s.node.CRISocket,
			Component: component}); err != nil {
			return err
		}
	}
	others := "each of the other control plane nodes"
	lost, isLost := errors.AsType[*lostQuorum](cause)
	if isLost {
		others = strings.Join(lost.nodes, ", ")
	} else if !s.kubeletHadExpired {
		return explainNoQuorum(s.node, cause)
	}
	e.Print(fmt.Sprintf(noQuorumText, cause, others))
	return nil
}

// noQuorumText is the result on a node that has to wait for others.
const noQuorumText = `
This node is done, but etcd has no quorum yet:
  %v
Once it has one, the kubelet starts kube-apiserver on this node. There is no need to re-run the command here.
Run it on %s:

  kubeadm certs renew all --restart
`

// report says which certificates the components use now.
func (s *staleRestart) report(ctx context.Context, e *engine.Env) error {
	for _, u := range s.known {
		if err := e.Await(ctx, u.Condition(s.node)); err != nil {
			return err
		}
		e.Say("%s is now using %s: %s", u.Component, u.Path, certuse.Describe(u.Certificate))
	}
	return nil
}

// etcdGracePeriod is that of its static Pod.
const etcdGracePeriod = 30 * time.Second
