package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/health"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Rejoin replaces the data of this node's etcd member by those of the cluster.
func Rejoin(o etcddata.Options) engine.Phase {
	return engine.Phase{Name: "rejoin", Run: func(ctx context.Context, e *engine.Env) error {
		return rejoin(ctx, e, o)
	}}
}

const rejoinCommand = "kubeadm etcd rejoin"

func rejoin(ctx context.Context, e *engine.Env, o etcddata.Options) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	x, err := etcddata.Read(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	if x != nil && x.Command != rejoinCommand {
		return x.UnfinishedError()
	}
	own, err := etcddata.ReadMember(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	if own.PeerURL != n.PeerURL() {
		return problem.New(fmt.Errorf("%s has the peer URL %s, but the address of this node's API server is %s",
			n.Paths.Manifest("etcd"), own.PeerURL, n.Address),
			"kubeadm adds members at the address of the API server: change --initial-advertise-peer-urls to "+n.PeerURL())
	}
	via, err := findOtherMembers(ctx, e, n, own, as)
	if err != nil {
		return err
	}
	r := rejoining{n: n, as: as, own: own, via: via, with: x}
	if x == nil {
		found, isPart, err := r.awaitPart(ctx, e)
		if err != nil {
			return err
		}
		if isPart {
			e.Say("this node's etcd member is a healthy member of the cluster: there is nothing to do")
			return nil
		}
		if err := r.prepare(ctx, e, found, o); err != nil {
			return err
		}
	}
	lock := clusterlock.Lock{Node: n.Name, Purpose: "adding its etcd member again", As: r.identities()}
	return lock.HoldIfReachable(ctx, e, r.run)
}

// prepare checks that this machine's member can leave and be added again, and asks the user.
func (r *rejoining) prepare(ctx context.Context, e *engine.Env, found etcdcluster.Health, o etcddata.Options) error {
	if err := r.own.CheckReplaceable(ctx, e.World); err != nil {
		return err
	}
	if other := found.WithoutPeer(r.own.PeerURL).FindLearner(); other != nil {
		return problem.New(fmt.Errorf("etcd can have only one learner at a time, and member %s at %s is being added",
			untrusted.Line(etcdcluster.MemberName(*other)), other.PeerURLs),
			"complete the join or rejoin on that machine first",
			untrusted.CommandHint("or, if that machine is lost, remove its member on another control plane node",
				"kubeadm etcd members remove %s", etcdcluster.MemberName(*other)))
	}
	var err error
	if r.with, err = etcddata.New(ctx, e, r.own, rejoinCommand); err != nil || o.Ask == nil {
		return err
	}
	return o.Ask(ctx, fmt.Sprintf("the data of this node's etcd member, in %s, are about to be replaced by those of "+
		"the cluster of %s. They are kept beside them", r.own.MemberDir(), untrusted.Line(fmt.Sprint(found.Endpoints()))))
}

// findOtherMembers returns how to reach the cluster through its other members. They are those that this
// machine's manifest lists or, if these have no quorum, those whose Pods an API server knows. This
// machine's own member is not asked: it may run with the data of another cluster. Members and API servers
// get the time in which an election, or an API server that has just started, is through.
func findOtherMembers(ctx context.Context, e *engine.Env, n *node.Node, own etcddata.Member,
	as state.Identity) (state.Etcd, error) {
	via := etcdcluster.LocalClient(n.Paths)
	for _, m := range own.Initial {
		if !slices.Contains(m.PeerURLs, own.PeerURL) {
			via.Endpoints = append(via.Endpoints, own.ClientURLsLike(m)...)
		}
	}
	var found etcdcluster.Health
	err := e.Await(ctx, world.Condition{
		Name: "the other members of etcd", Timeout: quorumReturnTimeout, External: true,
		Check: func(ctx context.Context, r state.Reader) (err error) {
			if found, err = checkOthers(ctx, r, via, own); err == nil || ctx.Err() != nil {
				return err
			}
			pods, podsErr := etcdcluster.FindEndpoints(ctx, r, as)
			if podsErr != nil {
				return errors.Join(err, podsErr)
			}
			fromPods := via
			fromPods.Endpoints = slices.DeleteFunc(pods, func(url string) bool { return url == own.ClientURL })
			if len(fromPods.Endpoints) == 0 && len(via.Endpoints) == 0 {
				return world.Permanent(problem.New(err, "if this node is the only control plane node, its data cannot "+
					"come from others: kubeadm etcd restore FILE"))
			}
			found, err = checkOthers(ctx, r, fromPods, own)
			return err
		},
	})
	if err != nil {
		return via, problem.During("the other members of etcd cannot take this one", err,
			"first bring them back: kubeadm etcd restore FILE, or kubeadm etcd recover, on one of their nodes",
			"if their machines are permanently lost: kubeadm etcd recover on this node",
			"if no API server answers: set --kubeconfig to an administrator's kubeconfig whose API server does")
	}
	via.Endpoints = found.WithoutPeer(own.PeerURL).Endpoints()
	return via, nil
}

// checkOthers returns an error unless the members other than this machine's have a quorum of their own.
func checkOthers(ctx context.Context, r state.Reader, via state.Etcd,
	own etcddata.Member) (etcdcluster.Health, error) {
	if len(via.Endpoints) == 0 {
		return etcdcluster.Health{}, errors.New("no other etcd member is known")
	}
	found, err := checkWithoutAlarms(ctx, r, via)
	if err == nil {
		err = found.WithoutPeer(own.PeerURL).CheckQuorum()
	}
	return found, err
}

// stableChecks is how often in a row a member must be found healthy, four times a second. One that has
// lost its data answers for a moment each time it starts, before it crashes again.
const stableChecks = 20

// awaitPart reports whether this machine's member votes, is healthy and stays so, as the others see it, and
// knows the same members as they do.
// One that does not answer gets the time in which a static Pod that exits is back.
func (r *rejoining) awaitPart(ctx context.Context, e *engine.Env) (found etcdcluster.Health, isPart bool, err error) {
	healthy := 0
	err = e.Await(ctx, world.Condition{
		Name: "this node's etcd member, in case it comes back", Timeout: quorumReturnTimeout, External: true,
		Check: func(ctx context.Context, reader state.Reader) error {
			all, err := etcdcluster.CheckHealth(ctx, reader, r.via)
			if err != nil {
				return err
			}
			var alarms []etcdcluster.Alarm
			found, alarms = all.SplitAlarms()
			m := found.FindByPeerURL(r.own.PeerURL)
			if m == nil || m.Learner || m.Name != r.own.Name ||
				slices.Contains(alarms, etcdcluster.Alarm{Member: m.ID, Kind: etcdcluster.Corrupt}) {
				return world.Permanent(errors.New("it is not a voting member with intact data"))
			}
			if err := cmp.Or(found.Unhealthy[m.ID], found.CheckAppliedIndex(m.ID)); err != nil {
				if _, isOther := errors.AsType[etcdcluster.OtherCluster](err); isOther {
					return world.Permanent(err)
				}
				healthy = 0
				return err
			}
			if healthy++; healthy < stableChecks {
				return errors.New("it has not been healthy for long enough")
			}
			return nil
		},
	})
	if ctx.Err() != nil || len(found.Members) == 0 {
		return found, false, err
	}
	if err != nil {
		return found, false, nil
	}
	conflicts := etcdcluster.FindConflicts(ctx, e.World, r.via, found)
	return found, conflicts[found.FindByPeerURL(r.own.PeerURL).ID] == nil, ctx.Err()
}

// identities are the API servers beside the other members, and then that of the kubeconfig, which may be
// a load balancer that still sends requests to this node.
func (r rejoining) identities() []state.Identity {
	var all []state.Identity
	for _, endpoint := range r.via.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue
		}
		beside := r.as
		beside.Server = "https://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(int(r.n.BindPort)))
		all = append(all, beside)
	}
	return append(all, r.as)
}

// rejoining is one run of Rejoin.
type rejoining struct {
	n    *node.Node
	as   state.Identity
	own  etcddata.Member
	via  state.Etcd
	with *etcddata.Exchange
}

// run brings the exchange from the stage that it has reached to its end, under the cluster's lock.
func (r rejoining) run(ctx context.Context, e *engine.Env) error {
	if r.with.Stage == "" || r.with.Stage == etcddata.Undoing { // recover undid it, and the others are back
		if err := r.with.Begin(ctx, e, r.own, etcddata.Exchanging); err != nil {
			return err
		}
	}
	if r.with.Stage == etcddata.Exchanging {
		if err := r.leave(ctx, e); err != nil {
			return err
		}
	} else if err := r.setStaleAside(ctx, e); err != nil {
		return err
	}
	if err := r.disarm(ctx, e); err != nil {
		return err
	}
	if err := addLearner(ctx, e, r.n, r.via, removeMemberHint); err != nil {
		return err
	}
	members, err := checkMembers(ctx, e, r.n, r.via, etcdcluster.CheckHealthQuickly)
	if err != nil {
		return err
	}
	data, err := r.own.ManifestWith(members.Members)
	if err != nil {
		return err
	}
	if err := r.start(ctx, e, data); err != nil {
		return err
	}
	if err := promoteLearner(ctx, e, r.n, r.via); errors.Is(err, health.ErrLearnerRemoved) {
		return problem.New(err, "re-run the command, which adds it again")
	} else if err != nil {
		return err
	}
	return r.finish(ctx, e)
}

// removeMemberHint says how to remove a member that will not come back. This node's own commands must wait
// for the rejoin.
func removeMemberHint(m state.Member) string {
	return untrusted.CommandHint("if that machine is lost, remove its member on another control plane node, and "+
		"re-run the command here", "kubeadm etcd members remove %s", etcdcluster.MemberName(m))
}

// setStaleAside renames data of a member that the cluster does not have any more: an interrupted run had
// added it, and it was removed since. With them etcd does not start, or belongs to another cluster. A member
// without a name is one that was added again and cannot start with them; one that is just starting gets the
// time to publish its name.
func (r rejoining) setStaleAside(ctx context.Context, e *engine.Env) error {
	inUse, err := state.HasEntry(ctx, e.World, r.own.MemberDir())
	if err != nil || !inUse {
		return err
	}
	starts, err := state.HasEntry(ctx, e.World, r.n.Paths.Manifest("etcd"))
	if err != nil {
		return err
	}
	var isListed, isStale bool
	err = e.Await(ctx, world.Condition{
		Name: "this node's etcd member to have joined the others", Timeout: quorumReturnTimeout, External: true,
		Check: func(ctx context.Context, reader state.Reader) error {
			isStale = false
			all, err := reader.Members(ctx, r.via)
			if err != nil {
				return err
			}
			own := etcdcluster.Health{Members: all}.FindByPeerURL(r.own.PeerURL)
			isListed, isStale = own != nil, own == nil || own.Name == ""
			switch {
			case !isStale:
				return nil
			case !isListed || !starts:
				return world.Permanent(errors.New("it is not one of the members, or does not run"))
			}
			return errors.New("it has not published its name to the other members yet")
		},
	})
	if ctx.Err() != nil || !isStale {
		return err
	}
	e.Say("this node's etcd member was removed after an interrupted run had started it: it is added again, without " +
		"its data")
	if err := r.with.Stop(ctx, e); err != nil {
		return err
	}
	if isListed { // its ID may be the one of the data, with which it must not start without them
		if err := e.Do(ctx, change.SetMember{PeerURL: r.own.PeerURL, State: change.Absent, Via: r.via}); err != nil {
			return fmt.Errorf("removing this node's etcd member from the cluster: %w", err)
		}
	}
	stale, err := etcddata.New(ctx, e, r.own, rejoinCommand)
	if err != nil {
		return err
	}
	return stale.PutAside(ctx, e, r.own)
}

// leave stops this machine's member, removes it from the cluster, and puts its data aside.
func (r rejoining) leave(ctx context.Context, e *engine.Env) error {
	if err := r.with.Stop(ctx, e); err != nil {
		return err
	}
	if err := e.Do(ctx, change.SetMember{PeerURL: r.own.PeerURL, State: change.Absent,
		Via: r.via}); err != nil {
		return fmt.Errorf("removing this node's etcd member from the cluster: %w", err)
	}
	if err := r.with.PutAside(ctx, e, r.own); err != nil {
		return err
	}
	if err := r.own.MakeDataDir(ctx, e); err != nil {
		return err
	}
	return r.with.Enter(ctx, e, etcddata.Starting)
}

// start starts etcd as a learner. A resumed run keeps the manifest of a member that has started: another
// list of members would only restart it.
func (r rejoining) start(ctx context.Context, e *engine.Env, data []byte) error {
	hasData, err := state.Exists(ctx, e.World, r.own.MemberDir())
	if err != nil {
		return err
	}
	if present, err := state.ReadOptional(ctx, e.World,
		r.n.Paths.Manifest("etcd")); err != nil {
		return err
	} else if hasData && present != nil {
		data = present
	}
	return r.with.Start(ctx, e, data)
}

// finish waits for kube-apiserver, which was stopped before etcd started, and restarts what holds state
// of the previous data.
func (r rejoining) finish(ctx context.Context, e *engine.Env) error {
	healthy, err := etcddata.Healthy(ctx, e, release.APIServer)
	if err != nil {
		return err
	}
	if err := e.Await(ctx, healthy); err != nil {
		return health.WithComponentHints(r.n, err)
	}
	if err := (staticpod.Replacement{Node: r.n, As: r.as}).Restart(ctx, e, release.ControllerManager,
		release.Scheduler); err != nil {
		return err
	}
	if err := r.with.End(ctx, e); err != nil {
		return err
	}
	text := "\nThis node's etcd member is a voting member of the cluster again, and its API server works.\n"
	if r.with.Kept != "" {
		text += fmt.Sprintf("The previous data are in %s. Remove that directory once you no longer need them.\n", r.with.Kept)
	}
	e.Print(text)
	return nil
}

// disarm clears the alarms that members have raised which are gone, such as the one whose data were
// corrupt: etcd keeps them, and refuses requests.
func (r rejoining) disarm(ctx context.Context, e *engine.Env) error {
	all, err := etcdcluster.CheckHealth(ctx, e.World, r.via)
	if err != nil {
		return err
	}
	found, alarms := all.SplitAlarms()
	for _, a := range alarms {
		if a.Member != 0 && found.FindByNameOrID(etcdcluster.FormatID(a.Member)) == nil {
			if err := e.Do(ctx, change.DisarmAlarm{Member: a.Member, Kind: a.Kind, Via: r.via}); err != nil {
				return err
			}
		}
	}
	return nil
}
