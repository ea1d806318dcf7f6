package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/world"
)

// Check looks whether etcd can take one more member, before anything of this machine's is started.
var Check = flow.Phase{
	Name:   "check-etcd",
	Short:  "Check that etcd is well enough for one more member",
	Hidden: true,
	When:   joinsEtcd,
	Run: func(ctx context.Context, e *flow.Env) error {
		n, via, err := findEtcd(ctx, e)
		if err != nil {
			return err
		}
		e.Say("checking whether etcd is well enough for one more member")
		if err := e.Await(ctx, newQuorumCondition(n, via)); err != nil {
			return err
		}
		if err := warnOfUnreachableVoters(ctx, e, n, via); err != nil {
			return err
		}
		_, err = findMembersToReplace(ctx, e, n, via)
		return err
	},
}

// warnOfUnreachableVoters warns early of voters that are away: etcd may wait for them before it takes one more.
func warnOfUnreachableVoters(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) error {
	roll, err := checkMembers(ctx, e, n, via)
	for _, m := range roll.Down() {
		e.Warn("etcd member %s at %s is away: %v", etcdcluster.MemberName(m), m.PeerURLs, roll.Silent[m.ID])
	}
	return err
}

// Join makes this machine's member one of the etcd cluster: it is announced as a learner, started, and
// promoted to a voter once it has caught up.
var Join = flow.Phase{
	Name:   "etcd-join",
	Short:  "Add this machine's member to etcd",
	Long:   "Announce this machine's etcd member as a learner, run it, and let it vote once it has caught up with the others.",
	Flags:  []flag.Name{flag.APIServerAdvertise, flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeName, flag.Patches, flag.ReplaceMember},
	NoArgs: true,
	When:   joinsEtcd,
	Run:    joinEtcd,
}

func joinsEtcd(n *node.Node) (bool, string) {
	if ok, why := node.IsControlPlane(n); !ok {
		return false, why
	}
	return node.LocalEtcd(n)
}

func joinEtcd(ctx context.Context, e *flow.Env) error {
	n, via, err := findEtcd(ctx, e)
	if err != nil {
		return err
	}
	if err := staticpod.TryPatches(ctx, e, n, manifest.Etcd); err != nil {
		return err
	}
	// While one member is being added no other can be: the turn is not taken before the kubelet can use it.
	err = health.WaitCheckingFiles(ctx, e, n, append(manifest.Components(), manifest.Etcd), func() error { return e.Await(ctx, health.Kubelet(ctx, e.World, n)) })
	if err != nil {
		return health.WithKubeletHints(err)
	}
	if err := e.Do(ctx, change.MakeDir{Path: n.Cluster.Etcd.DataDir, Mode: 0o700}); err != nil {
		return err
	}
	if err := replaceMembers(ctx, e, n, via); err != nil {
		return err
	}
	if err := addLearner(ctx, e, n, via); err != nil {
		return err
	}
	if err := writeManifest(ctx, e, n, via); err != nil {
		return err
	}
	return promoteLearner(ctx, e, n, via)
}

// promoteLearner lets the member vote as soon as it has caught up.
func promoteLearner(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) error {
	begun := e.World.Now()
	for {
		if err := waitForLearner(ctx, e, n, via); err != nil {
			return health.WithComponentHints(n, err)
		}
		err := e.Do(ctx, change.SetMember{PeerURL: n.PeerURL(), State: change.Voter, Via: via})
		if !errors.Is(err, change.ErrBehind) {
			return err
		}
		if e.World.Now().Sub(begun) > n.Timeouts.EtcdAPI {
			return health.WithComponentHints(n, err)
		}
		e.Say("etcd member %s is still behind the others", n.Name)
	}
}

// waitForLearner waits until the member serves and can be let vote. As long as it does not vote, starting it anew costs the others nothing.
func waitForLearner(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) error {
	wait := func(anew bool) error {
		return health.WaitCheckingFiles(ctx, e, n, manifest.Components(), func() error {
			return withProposals(ctx, e, via, func() error { return e.Await(ctx, health.EtcdLearner(n, via, anew)) })
		})
	}
	err := wait(false)
	if !errors.Is(err, health.ErrLearnerNotPublished) {
		return err
	}
	e.Say("starting etcd member %s anew: it has its data, but would wait for seconds before it serves them", n.Name)
	if err := e.Do(ctx, change.RemoveContainers{Socket: n.CRISocket, Component: manifest.Etcd}); err != nil {
		return err
	}
	return wait(true)
}

// proposalDuration is how long a member takes at most from its manifest to its first words.
const proposalDuration = 15 * time.Second

// withProposals keeps the members busy while a new one starts. Its first snapshot is taken when they next agree on something:
// if that is no sooner than on the new member's own first words, it never learns that they were heard, and
// waits seven seconds before it repeats them and serves anybody (docs/decisions/0019).
func withProposals(ctx context.Context, e *flow.Env, via state.Etcd, wait func() error) error {
	busy, stop := context.WithTimeout(ctx, proposalDuration)
	var done sync.WaitGroup
	done.Go(func() { _ = e.World.Agree(busy, via) }) // whether etcd answers shows in the wait
	defer done.Wait()
	defer stop()
	return wait()
}

// findEtcd finds a way to the etcd cluster: its Pods tell where it is, and its members where all of them are. Those that
// do not answer come last, as each question to them costs seconds.
func findEtcd(ctx context.Context, e *flow.Env) (*node.Node, state.Etcd, error) {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return nil, state.Etcd{}, err
	}
	endpoints, _ := etcdcluster.FindEndpoints(ctx, e.World, as)
	err = e.Await(ctx, world.Condition{
		Name:    "a Pod that tells where etcd is",
		Timeout: n.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) (err error) {
			if len(endpoints) > 0 {
				return nil
			}
			if endpoints, err = etcdcluster.FindEndpoints(ctx, r, as); err == nil && len(endpoints) == 0 {
				err = fmt.Errorf("no Pod labelled component=etcd in kube-system has the annotation %s", manifest.EtcdURLAnnotation)
			}
			return err
		},
	})
	via := etcdcluster.LocalClient(n.Paths, endpoints...)
	if roll, asked := etcdcluster.CheckHealth(ctx, e.World, via); err == nil && asked == nil && len(roll.Said) > 0 {
		via.Endpoints = roll.Endpoints()
	}
	return n, via, err
}

// newQuorumCondition holds while enough voters are well to decide anything.
func newQuorumCondition(n *node.Node, via state.Etcd) world.Condition {
	return world.Condition{
		Name:    "a quorum of etcd's members",
		Timeout: n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			roll, err := etcdcluster.CheckHealth(ctx, r, via)
			if err != nil {
				return explainMissingFiles(errors.Join(quorumLossError(ctx, r, via), err))
			}
			return roll.Quorum()
		},
	}
}

// quorumLossError names the voters that are missing where etcd decides nothing any more, not even who its members are: then
// each only knows of itself. It is nil where that is not what is wrong.
func quorumLossError(ctx context.Context, r state.Reader, via state.Etcd) error {
	via.Stale = true
	roll, err := etcdcluster.CheckHealth(ctx, r, via)
	if err != nil || roll.Quorum() == nil {
		return nil
	}
	return problem.New("etcd has lost its quorum", roll.Quorum(), "bring back the machines of the members that are away")
}

// checkMembers calls the roll, if need be again and again: while etcd chooses a leader it tells nobody who its members are.
func checkMembers(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) (etcdcluster.Health, error) {
	return retryCheck(ctx, e, n, func(ctx context.Context, r state.Reader) (etcdcluster.Health, error) {
		return etcdcluster.CheckHealth(ctx, r, via)
	})
}

func retryCheck(ctx context.Context, e *flow.Env, n *node.Node, call func(context.Context, state.Reader) (etcdcluster.Health, error)) (etcdcluster.Health, error) {
	roll, err := call(ctx, e.World)
	if err == nil {
		return roll, nil
	}
	err = e.Await(ctx, world.Condition{
		Name:    "etcd to tell who its members are",
		Timeout: n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) (err error) {
			roll, err = call(ctx, r)
			return explainMissingFiles(err)
		},
	})
	return roll, err
}

// explainMissingFiles gives up where etcd cannot even be asked, as the files are missing that this takes.
func explainMissingFiles(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return world.GiveUp(problem.New("", err, "run the control-plane-prepare/certs phase first"))
	}
	return err
}

// writeManifest writes the member's manifest. Once a member has started, its data say whom it knows, and not the manifest.
func writeManifest(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) error {
	roll, err := retryCheck(ctx, e, n, func(ctx context.Context, r state.Reader) (etcdcluster.Health, error) {
		return etcdcluster.CheckHealthQuickly(ctx, r, via)
	})
	if err != nil {
		return err
	}
	own := roll.At(n.PeerURL())
	if own == nil {
		return fmt.Errorf("etcd has lost the member at %s that was announced a moment ago: somebody else has removed it", n.PeerURL())
	}
	file := n.Paths.Manifest(manifest.Etcd)
	if _, err := e.World.Stat(ctx, file); err == nil && own.Name != "" {
		e.Say("keeping the static Pod manifest of etcd: its member has started")
		return nil
	}
	e.Say("creating the static Pod manifest for etcd in %q", n.Paths.Manifests())
	return staticpod.Write(ctx, e, n, manifest.Etcd, roll.Members)
}

// hasData tells whether a member has ever run on this machine and its data are still here.
func hasData(ctx context.Context, r state.Reader, n *node.Node) (bool, error) {
	_, err := r.Stat(ctx, path.Join(n.Cluster.Etcd.DataDir, "member"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
