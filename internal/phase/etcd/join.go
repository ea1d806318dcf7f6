package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
)

// Check checks whether a member can be added to etcd, before anything is started on this machine.
var Check = engine.Phase{
	Name:   "check-etcd",
	Short:  "Check that a member can be added to etcd",
	Hidden: true,
	When:   joinsEtcd,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, via, err := findEtcd(ctx, e)
		if err != nil {
			return err
		}
		e.Say("checking whether a member can be added to etcd")
		if err := e.Await(ctx, newQuorumCondition(n, via)); err != nil {
			return err
		}
		members, err := checkMembers(ctx, e, n, via, etcdcluster.CheckHealth)
		if err != nil {
			return err
		}
		for _, m := range members.UnhealthyVoters() { // etcd may accept no learner meanwhile
			e.Warn("etcd member %s at %s is unreachable: %v", etcdcluster.MemberName(m), m.PeerURLs,
				members.Unhealthy[m.ID])
		}
		_, err = findMembersToReplace(ctx, e, n, via)
		return err
	},
}

// Join adds this machine's member to the etcd cluster: as a learner, which is started, and
// promoted to a voter once it has caught up.
var Join = engine.Phase{
	Name:  "etcd-join",
	Short: "Add this machine to the etcd cluster",
	Long:  "Add this machine's etcd member as a learner, start it, and promote it to a voting member once it has caught up with the others.",
	Flags: []flag.Name{flag.APIServerAdvertise, flag.Config, flag.ControlPlane, flag.DryRun,
		flag.NodeAddressFrom, flag.NodeName, flag.Patches, flag.ReplaceMember},
	NoArgs: true,
	When:   joinsEtcd,
	Run:    joinEtcd,
}

func joinsEtcd(n *node.Node) (bool, string) {
	if ok, why := node.IsControlPlane(n); !ok {
		return false, why
	}
	return node.HasLocalEtcd(n)
}

func joinEtcd(ctx context.Context, e *engine.Env) error {
	n, via, err := findEtcd(ctx, e)
	if err != nil {
		return err
	}
	if err := staticpod.CheckPatches(ctx, e, n, manifest.Etcd); err != nil {
		return err
	}
	// A learner keeps other machines from adding theirs: add it once the kubelet can start it.
	err = health.WaitCheckingFiles(ctx, e, n, health.ExceptManifests(n, append(manifest.Components(), manifest.Etcd)...),
		func() error {
			return e.Await(ctx, health.Kubelet(ctx, e.World, n))
		})
	if err != nil {
		return health.WithKubeletHints(n.Platform, err)
	}
	if err := e.Do(ctx, change.MakeDir{Path: n.Cluster.Etcd.DataDir, Mode: 0o700}); err != nil {
		return err
	}
	if err := replaceMembers(ctx, e, n, via); err != nil {
		return err
	}
	if err := addLearner(ctx, e, n, via, replaceMemberHint); err != nil {
		return err
	}
	if err := writeManifest(ctx, e, n, via); err != nil {
		return err
	}
	if err := promoteLearner(ctx, e, n, via); errors.Is(err, health.ErrLearnerRemoved) {
		return problem.New(err, "run kubeadm reset, then join this machine again")
	} else if err != nil {
		return err
	}
	return nil
}

// findEtcd finds the endpoints of etcd: of the etcd Pods first, then of all members. Those that do
// not answer come last, as each request to them takes seconds.
func findEtcd(ctx context.Context, e *engine.Env) (*node.Node, state.Etcd, error) {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return nil, state.Etcd{}, err
	}
	endpoints, _ := etcdcluster.FindEndpoints(ctx, e.World, as)
	err = e.Await(ctx, world.Condition{
		Name:    "an etcd Pod with its client URL",
		Timeout: n.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) (err error) {
			if len(endpoints) > 0 {
				return nil
			}
			if endpoints, err = etcdcluster.FindEndpoints(ctx, r, as); err == nil &&
				len(endpoints) == 0 {
				err = fmt.Errorf("no Pod in kube-system with the label component=etcd has the annotation %s", manifest.EtcdURLAnnotation)
			}
			return err
		},
	})
	via := etcdcluster.LocalClient(n.Paths, endpoints...)
	members, failed := etcdcluster.CheckHealth(ctx, e.World, via)
	if err == nil && failed == nil && len(members.Healthy) > 0 {
		via.Endpoints = members.Endpoints()
	}
	return n, via, err
}

// newQuorumCondition is met while etcd has a quorum of healthy voters.
func newQuorumCondition(n *node.Node, via state.Etcd) world.Condition {
	return world.Condition{
		Name:    "a quorum of etcd's members",
		Timeout: n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			members, err := etcdcluster.CheckHealth(ctx, r, via)
			if err == nil {
				return members.CheckQuorum()
			}
			// Without a quorum, the member list that one of the others has names the unreachable
			// voters.
			serializable := via
			serializable.Serializable = true
			members, failed := etcdcluster.CheckHealth(ctx, r, serializable)
			if failed == nil && members.CheckQuorum() != nil {
				err = errors.Join(problem.During("etcd has lost its quorum", members.CheckQuorum(),
					"start the machines of the unreachable members"), err)
			}
			return explainMissingFiles(err)
		},
	}
}

// checkMembers checks the health of all members. It retries, as etcd does not list its members
// while it elects a leader.
func checkMembers(ctx context.Context, e *engine.Env, n *node.Node, via state.Etcd,
	check func(context.Context, state.Reader, state.Etcd) (etcdcluster.Health, error)) (
	etcdcluster.Health, error) {
	members, err := check(ctx, e.World, via)
	if err == nil {
		return members, nil
	}
	err = e.Await(ctx, world.Condition{
		Name:    "etcd to list its members",
		Timeout: n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) (err error) {
			members, err = check(ctx, r, via)
			return explainMissingFiles(err)
		},
	})
	return members, err
}

// explainMissingFiles gives up if the client certificates for etcd do not exist.
func explainMissingFiles(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return world.Permanent(problem.New(err,
			"run this phase first: kubeadm join phase control-plane-prepare certs"))
	}
	return err
}

// writeManifest writes the member's static Pod manifest. Once a member has started, it takes the
// other members from its data and not from the manifest, which then stays as it is.
func writeManifest(ctx context.Context, e *engine.Env, n *node.Node, via state.Etcd) error {
	members, err := checkMembers(ctx, e, n, via, etcdcluster.CheckHealthQuickly)
	if err != nil {
		return err
	}
	member := members.FindByPeerURL(n.PeerURL())
	if member == nil {
		return fmt.Errorf("etcd no longer has a member at %s: it was removed right after this command added it", n.PeerURL())
	}
	file := n.Paths.Manifest(manifest.Etcd)
	if _, err := e.World.Stat(ctx, file); err == nil && member.Name != "" {
		e.Say("keeping the static Pod manifest of etcd: its member has started")
		return nil
	}
	e.Say("creating the static Pod manifest for etcd in %q", n.Paths.Manifests())
	return staticpod.Write(ctx, e, n, manifest.Etcd, members.Members)
}
