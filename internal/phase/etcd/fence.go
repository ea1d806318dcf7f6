package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// fence makes sure that no other member continues the cluster whose data this node is about to replace.
// While that has a quorum, etcd itself does it: the other members are removed from it, and raft lets a
// removed member neither vote nor write, whenever it learns of the removal. Without a quorum nothing
// can be removed: then no other member may answer, and the user must say that each of them is lost
// (docs/decisions/0068).
type fence struct {
	own   etcddata.Member
	via   state.Etcd     // of this machine's member
	as    state.Identity // of an API server, whose Pods tell further members
	port  int32          // of the API servers
	paths node.Paths
	lost  []string // names or IDs, as the user says
}

func newFence(n *node.Node, as state.Identity, own etcddata.Member, lost []string) fence {
	return fence{own: own, via: etcdcluster.LocalClient(n.Paths, own.ClientURL), as: as, port: n.BindPort,
		paths: n.Paths, lost: lost}
}

// fencePlan is what a fence finds before it changes anything.
type fencePlan struct {
	others    []state.Member // that are not this machine's
	hasQuorum bool
	revision  int64    // of the present data; 0 if it is not known
	notes     []string // what the user should know of members that are said to be lost
}

func (p fencePlan) names() (all []string) {
	for _, m := range p.others {
		all = append(all, untrusted.Line(etcdcluster.MemberName(m)))
	}
	return all
}

// quorumReturnTimeout is how long a quorum may take to come back. An election takes a few seconds, a
// static Pod that exits is back within this.
const quorumReturnTimeout = 30 * time.Second

// plan checks that the other members can be fenced. More are members that are known from elsewhere: they
// count where etcd does not say who its members are.
func (f fence) plan(ctx context.Context, e *engine.Env, more []state.Member) (fencePlan, error) {
	var found etcdcluster.Health
	var alarms []etcdcluster.Alarm
	err := e.Await(ctx, world.Condition{
		Name: "a quorum of etcd, in case it comes back", Timeout: quorumReturnTimeout, External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			all, err := etcdcluster.CheckHealth(ctx, r, f.via)
			if err != nil {
				return err
			}
			found, alarms = all.SplitAlarms()
			return found.CheckQuorum()
		},
	})
	if ctx.Err() != nil {
		return fencePlan{}, err
	}
	if world.IsPermanent(err) {
		return fencePlan{}, f.newClientError(err)
	}
	if err != nil {
		return f.planWithoutQuorum(ctx, e, more)
	}
	if slices.ContainsFunc(alarms, func(a etcdcluster.Alarm) bool { return a.Kind == etcdcluster.NoSpace }) {
		return fencePlan{}, problem.New(errors.New("etcd has no space left, and so cannot store who changes the cluster"),
			"free its space first: kubeadm etcd defrag")
	}
	others, err := f.withoutOwn(ctx, e.World, found.Members)
	p := fencePlan{others: others, hasQuorum: true}
	for _, status := range found.Answered {
		p.revision = max(p.revision, status.Revision)
	}
	return p, err
}

// newClientError is the error of a permanent one: the files with which this machine asks etcd cannot be used. Whether etcd
// has a quorum is not known then.
func (f fence) newClientError(err error) error {
	return problem.New(err, "restore the file from a backup", untrusted.CommandHint("or, if it is the client certificate or its "+
		"key, move both of these files away and generate new ones",
		"kubeadm init phase certs etcd-healthcheck-client --cert-dir %s", f.paths.Certificates))
}

// checkWithoutAlarms is the health of the members as far as it decides who votes: a member with an alarm
// does.
func checkWithoutAlarms(ctx context.Context, r state.Reader, via state.Etcd) (etcdcluster.Health, error) {
	found, err := etcdcluster.CheckHealth(ctx, r, via)
	if err == nil {
		found, _ = found.SplitAlarms()
	}
	return found, err
}

// ownMember is this machine's member as its manifest describes it.
func (f fence) ownMember() state.Member {
	return state.Member{Name: f.own.Name, ClientURLs: f.via.Endpoints}
}

func errOwnLearner() error {
	return problem.New(errors.New("this node's etcd member is a learner"),
		"run the command on a node whose member votes, or complete the join here first")
}

// withoutOwn returns the members without the one that answers on this machine. Which one that is, the
// member itself says: its URLs may have been changed in the list or in the manifest.
func (f fence) withoutOwn(ctx context.Context, r state.Reader, all []state.Member) ([]state.Member, error) {
	status, err := r.MemberStatus(ctx, f.via, f.ownMember())
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(m state.Member) bool { return m.ID == status.ID })
	switch {
	case at < 0:
		return nil, problem.New(fmt.Errorf("the etcd member that answers at %s, %s, is not one of those that etcd lists",
			f.own.ClientURL, etcdcluster.FormatID(status.ID)),
			"compare the lists of the control plane nodes: kubeadm etcd members")
	case all[at].Learner:
		return nil, errOwnLearner()
	}
	others := slices.Delete(slices.Clone(all), at, at+1)
	slices.SortFunc(others, func(a, b state.Member) int {
		return strings.Compare(etcdcluster.MemberName(a), etcdcluster.MemberName(b))
	})
	return others, nil
}

// planWithoutQuorum returns an error unless all other members are lost, as far as this node can find out,
// and the user says so.
func (f fence) planWithoutQuorum(ctx context.Context, e *engine.Env, more []state.Member) (fencePlan, error) {
	var p fencePlan
	serializable := f.via
	serializable.Serializable, serializable.Peer = true, f.own.PeerURL
	found, err := checkWithoutAlarms(ctx, e.World, serializable)
	if err == nil {
		if _, notServing := e.World.MemberStatus(ctx, f.via, f.ownMember()); notServing == nil {
			p.others, err = f.withoutOwn(ctx, e.World, found.Members)
		} else if own := found.FindByPeerURL(f.own.PeerURL); own != nil && own.Learner {
			err = errOwnLearner()
		} else { // the list is of the peer URL of this machine's member
			p.others = found.WithoutPeer(f.own.PeerURL).Members
		}
		for _, status := range found.Answered {
			p.revision = max(p.revision, status.Revision)
		}
	} else if ctx.Err() == nil {
		p.others, p.revision, err = f.findOthers(ctx, e, more)
	}
	if err != nil {
		return p, err
	}
	if err := f.checkNoQuorumElsewhere(ctx, e.World, p.others); err != nil {
		return p, err
	}
	p.notes, err = f.checkLost(ctx, e.World, found, p.others)
	return p, errors.Join(err, ctx.Err())
}

// podsTimeout limits how long an API server may take to list the Pods of etcd. That of this node has no
// etcd.
const podsTimeout = 15 * time.Second

// findOthers collects the members that this node's manifest, its data on disk and an API server name. The
// revision is that of the data on disk, 0 if they cannot be read.
func (f fence) findOthers(ctx context.Context, e *engine.Env,
	more []state.Member) (others []state.Member, revision int64, err error) {
	add := func(m state.Member) {
		isOwn := m.Name == f.own.Name || sharesHost(m, f.own.PeerURL)
		isKnown := slices.ContainsFunc(others, func(o state.Member) bool {
			return m.Name != "" && o.Name == m.Name ||
				slices.ContainsFunc(m.PeerURLs, func(url string) bool { return sharesHost(o, url) })
		})
		if !isOwn && !isKnown {
			others = append(others, m)
		}
	}
	for _, m := range f.own.Initial {
		add(m)
	}
	info, err := e.World.ReadDatabase(ctx, path.Join(f.own.MemberDir(), "snap", "db"))
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, err
		}
		e.Warn("the database of this node's etcd member cannot be read: %v", err)
	}
	for _, name := range info.Members {
		add(state.Member{Name: name, PeerURLs: info.PeerURLs[name]})
	}
	for _, m := range more { // last: of some of them only the name is known
		add(m)
	}
	limited, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	urls, err := etcdcluster.FindEndpoints(limited, e.World, f.as)
	if err != nil {
		e.Warn("no API server lists the Pods of etcd: %v", err)
	}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			peer := f.own.PeerURLAt(u.Hostname())
			add(state.Member{Name: u.Hostname(), ClientURLs: []string{text}, PeerURLs: []string{peer}})
		}
	}
	return others, info.Revision, ctx.Err()
}

// sharesHost reports whether a URL is on the machine of a member.
func sharesHost(m state.Member, text string) bool {
	u, err := url.Parse(text)
	return err == nil && slices.ContainsFunc(m.PeerURLs, func(peer string) bool {
		p, err := url.Parse(peer)
		return err == nil && p.Hostname() == u.Hostname()
	})
}

// checkNoQuorumElsewhere returns an error if the other members work without this machine's.
func (f fence) checkNoQuorumElsewhere(ctx context.Context, r state.Reader, others []state.Member) error {
	via := f.via
	via.Endpoints = nil
	for _, m := range others {
		via.Endpoints = append(via.Endpoints, f.own.ClientURLsLike(m)...)
	}
	if len(via.Endpoints) == 0 {
		return nil
	}
	found, err := checkWithoutAlarms(ctx, r, via)
	if world.IsPermanent(err) {
		return f.newClientError(err)
	}
	if err != nil || found.CheckQuorum() != nil {
		return ctx.Err()
	}
	return problem.New(errors.New("the other members of etcd have a quorum, and this node's member does not answer"),
		"repair this node's member first: kubeadm etcd rejoin",
		"or run the command on the node of another member")
}

// checkLost returns an error unless no other member answers, and each of them is said to be lost. The
// notes are on those that may not be.
func (f fence) checkLost(ctx context.Context, r state.Reader, found etcdcluster.Health,
	others []state.Member) (notes []string, err error) {
	probes := f.probe(ctx, r, others)
	var undeclared []string
	for i, m := range others {
		name := untrusted.Line(etcdcluster.MemberName(m))
		if what := probes[i].answers; what != "" {
			component := "etcd"
			if what == apiServer {
				component = release.APIServer
			}
			return nil, problem.New(fmt.Errorf("etcd has no quorum, but %s of %s answers, so the quorum may come back%s",
				what, name, newestData(found, f.own.PeerURL, m)),
				"start the other members, so that etcd has a quorum again, and re-run the command",
				fmt.Sprintf("or, if a quorum of them is permanently lost, stop it on the node of %s: move %s to another directory",
					name, f.paths.Manifest(component)))
		}
		switch {
		case len(f.own.ClientURLsLike(m)) == 0:
			notes = append(notes, fmt.Sprintf("no address of %s is known, so it was not asked", name))
		case probes[i].isUp:
			notes = append(notes, fmt.Sprintf("the machine of %s is up, but nothing answers for etcd there", name))
		}
		alone := etcdcluster.Health{Members: []state.Member{m}}
		if !slices.ContainsFunc(f.lost, func(n string) bool { return alone.FindByNameOrID(n) != nil }) {
			undeclared = append(undeclared, etcdcluster.MemberName(m))
		}
	}
	if len(undeclared) == 0 {
		return notes, nil
	}
	all := append([]string{fmt.Sprintf("etcd has no quorum, and these members do not answer: %s. If they "+
		"start again with their data, there are two clusters with the same nodes",
		untrusted.Line(strings.Join(undeclared, ", ")))}, notes...)
	return nil, problem.New(errors.New(strings.Join(all, ". Note: ")),
		"start their machines, so that etcd has a quorum again, and re-run the command",
		untrusted.CommandHint("or, if their machines are permanently lost, or etcd.yaml was moved out of "+
			path.Dir(f.paths.Manifest("etcd"))+" there, re-run the command with", "--%s=%s", string(flag.LostMember),
			strings.Join(undeclared, ",")))
}

// newestData says which of two members has newer data, if both report how far they are.
func newestData(found etcdcluster.Health, ownPeer string, other state.Member) string {
	own := found.FindByPeerURL(ownPeer)
	if own == nil {
		return ""
	}
	mine, ok := found.Answered[own.ID]
	theirs, answers := found.Answered[other.ID]
	switch {
	case !ok || !answers:
		return ""
	case theirs.AppliedIndex > mine.AppliedIndex:
		return fmt.Sprintf("; its data are newer than those of this node (raft index %d, here %d)",
			theirs.AppliedIndex, mine.AppliedIndex)
	}
	return fmt.Sprintf("; its data are not newer than those of this node (raft index %d, here %d)",
		theirs.AppliedIndex, mine.AppliedIndex)
}

// probe is what answers at the addresses of a member.
type probe struct {
	answers string // etcdMember or apiServer; empty if nothing does
	isUp    bool   // the machine refuses connections, so it runs
}

const (
	etcdMember = "the etcd member"
	apiServer  = "the API server"
)

// probe asks the members' machines at the same time: of one that is lost, each address takes its time.
func (f fence) probe(ctx context.Context, r state.Reader, members []state.Member) []probe {
	all := make([]probe, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { all[i] = f.probeOne(ctx, r, m) })
	}
	wg.Wait()
	return all
}

func (f fence) probeOne(ctx context.Context, r state.Reader, m state.Member) (p probe) {
	ask := func(what, address string) {
		if _, err := r.ServedCertificate(ctx, address); err == nil && p.answers == "" {
			p.answers = what
		} else if errors.Is(err, state.ErrNoServer) {
			p.isUp = true
		}
	}
	m.ClientURLs = f.own.ClientURLsLike(m)
	if _, err := r.MemberStatus(ctx, f.via, m); err == nil {
		return probe{answers: etcdMember}
	}
	for _, text := range slices.Concat(m.ClientURLs, m.PeerURLs) {
		if u, err := url.Parse(text); err == nil {
			ask(etcdMember, u.Host)
		}
	}
	for _, text := range m.PeerURLs {
		if u, err := url.Parse(text); err == nil {
			ask(apiServer, net.JoinHostPort(u.Hostname(), strconv.Itoa(int(f.port))))
		}
	}
	return p
}

// close removes the other members, those that do not answer first: etcd refuses a removal that would
// leave too few. Afterwards the cluster consists of this machine's member, with all its data.
func (f fence) close(ctx context.Context, e *engine.Env, p fencePlan) error {
	if !p.hasQuorum || len(p.others) == 0 {
		return nil
	}
	found, err := checkWithoutAlarms(ctx, e.World, f.via)
	if err != nil {
		return err
	}
	others, err := f.withoutOwn(ctx, e.World, found.Members)
	if err != nil {
		return err
	}
	slices.SortStableFunc(others, func(a, b state.Member) int {
		return strings.Compare(answerOrder(found, a), answerOrder(found, b))
	})
	for _, m := range others {
		e.Say("removing etcd member %s at %s, so that it cannot continue with the present data",
			untrusted.Line(etcdcluster.MemberName(m)), m.PeerURLs)
		if err := e.Do(ctx, change.SetMember{PeerURL: m.PeerURLs[0], State: change.Absent,
			Via: f.via}); err != nil {
			return fmt.Errorf("removing etcd member %s: %w", untrusted.Line(etcdcluster.MemberName(m)), err)
		}
	}
	return e.Await(ctx, world.Condition{
		Name: "etcd to have no other member", Timeout: e.Local.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			found, err := etcdcluster.CheckHealth(ctx, r, f.via)
			if err == nil && len(found.Members) != 1 {
				err = fmt.Errorf("it has %d members", len(found.Members))
			}
			return err
		},
	})
}

// answerOrder sorts learners and members that do not answer before the others.
func answerOrder(found etcdcluster.Health, m state.Member) string {
	switch {
	case m.Learner:
		return "0"
	case found.Unhealthy[m.ID] != nil:
		return "1"
	}
	return "2"
}
