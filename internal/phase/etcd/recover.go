package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Recover makes this node's member, with its data, the only one of etcd: the quorum is permanently lost.
func Recover(o etcddata.Options) engine.Phase {
	return engine.Phase{Name: "recover", Run: func(ctx context.Context, e *engine.Env) error {
		return recoverQuorum(ctx, e, o)
	}}
}

const recoverCommand = "kubeadm etcd recover"

// servePeriod is how long a member that is slow may take to answer, and until its data can be saved.
const servePeriod = 20 * time.Second

// recovery is one run of Recover.
type recovery struct {
	etcddata.Options
	n    *node.Node
	as   state.Identity
	own  etcddata.Member
	with *etcddata.Exchange
	note string // what the user should know of the data
}

func recoverQuorum(ctx context.Context, e *engine.Env, o etcddata.Options) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	r := &recovery{Options: o, n: n, as: as}
	if r.with, err = etcddata.Read(ctx, e.World, n.Paths); err != nil {
		return err
	}
	if r.own, err = etcddata.ReadMember(ctx, e.World, n.Paths); err != nil {
		return err
	}
	switch {
	case r.with == nil:
	case r.with.Command == rejoinCommand:
		if err := r.undoRejoin(ctx, e); err != nil {
			return err
		}
	case r.with.Command != recoverCommand:
		return r.with.UnfinishedError()
	}
	check := r.prepare
	if r.with != nil {
		check = r.checkAgain
	}
	if isNeeded, err := check(ctx, e); err != nil || !isNeeded {
		return err
	}
	if err := r.force(ctx, e); err != nil {
		return err
	}
	return r.report(ctx, e)
}

// undoRejoin ends an interrupted rejoin, since the members from which it would get data are lost. If this
// node's member votes by then, it has all data, and keeps them; otherwise it gets those from before the
// rejoin again.
func (r *recovery) undoRejoin(ctx context.Context, e *engine.Env) error {
	if _, err := findOtherMembers(ctx, e, r.n, r.own, r.as); err == nil {
		return r.with.UnfinishedError()
	} else if ctx.Err() != nil {
		return err
	}
	inUse, err := state.HasEntry(ctx, e.World, r.own.MemberDir())
	if err != nil {
		return err
	}
	kept, err := r.with.HasKept(ctx, e)
	if err != nil {
		return err
	}
	if inUse && r.with.Stage == etcddata.Starting {
		if votes, err := r.isVoter(ctx, e); err != nil {
			return err
		} else if votes {
			return r.keepRejoined(ctx, e)
		}
	}
	switch {
	case !kept && (!inUse || r.with.Stage == etcddata.Starting):
		return problem.New(fmt.Errorf("this node has no etcd data to continue with: \"%s\" was interrupted "+
			"before it had brought them", r.with.Command), "restore a snapshot: kubeadm etcd restore FILE")
	case kept && inUse && r.with.Stage != etcddata.Undoing:
		if err := r.agree(ctx, e, fmt.Sprintf("the data of this node's etcd member, in %s, were brought by an "+
			"interrupted \"%s\" and may be incomplete, as it does not vote yet. They are about to be renamed to %s, "+
			"and replaced by those from before, in %s, which are older or damaged", r.own.MemberDir(), r.with.Command,
			r.with.NotStarted(), r.with.Kept)); err != nil {
			return err
		}
	}
	e.Say("undoing the interrupted \"%s\": the members whose data it wanted do not answer", r.with.Command)
	if kept {
		if err := r.with.Enter(ctx, e, etcddata.Undoing); err != nil {
			return err
		}
		if err := r.with.Stop(ctx, e); err != nil {
			return err
		}
		if err := r.with.PutBack(ctx, e, r.own); err != nil {
			return err
		}
	}
	r.note = "These are its data from before the interrupted \"" + r.with.Command + "\""
	if err := r.with.Start(ctx, e, r.own.Manifest); err != nil {
		return err
	}
	if err := r.with.End(ctx, e); err != nil {
		return err
	}
	r.with = nil
	return nil
}

// isVoter reports whether this node's member votes, with the data that an interrupted rejoin has brought. If
// it does not answer, that is not known, and only the user can decide.
func (r *recovery) isVoter(ctx context.Context, e *engine.Env) (bool, error) {
	all, err := r.awaitMembers(ctx, e)
	if ctx.Err() != nil {
		return false, err
	}
	m := etcdcluster.Health{Members: all}.FindByPeerURL(r.own.PeerURL)
	switch {
	case err == nil && m != nil:
		return !m.Learner, nil
	case err == nil:
		err = errors.New("it does not list itself among the members")
	}
	return false, problem.During(fmt.Sprintf("an interrupted \"%s\" has brought the data in %s, and it is not known "+
		"whether they are complete", r.with.Command, r.own.MemberDir()), err,
		"see why etcd does not run: crictl ps -a --name etcd; crictl logs CONTAINERID",
		fmt.Sprintf("or, to continue with the data from before, in %s, first move %s and then %s to another directory",
			r.with.Kept, r.n.Paths.Manifest(manifest.Etcd), r.own.MemberDir()))
}

// keepRejoined ends an interrupted rejoin whose member votes.
func (r *recovery) keepRejoined(ctx context.Context, e *engine.Env) (err error) {
	e.Say("keeping the data that the interrupted \"%s\" has brought: this node's etcd member votes", r.with.Command)
	if r.with.Kept != "" {
		e.Say("the data from before it stay in %q", r.with.Kept)
	}
	if err := r.with.End(ctx, e); err != nil {
		return err
	}
	r.with = nil
	r.own, err = etcddata.ReadMember(ctx, e.World, r.n.Paths)
	return err
}

// agree asks the user, or warns if that is not to be asked.
func (r *recovery) agree(ctx context.Context, e *engine.Env, what string) error {
	if r.Ask != nil {
		return r.Ask(ctx, what)
	}
	e.Warn("%s", what)
	return nil
}

// prepare checks that the quorum is lost, asks the user, saves a snapshot, and checks once more. It
// reports false if there is nothing to do.
func (r *recovery) prepare(ctx context.Context, e *engine.Env) (isNeeded bool, err error) {
	f := newFence(r.n, r.as, r.own, r.Lost)
	p, err := r.plan(ctx, e, f)
	if err != nil {
		return false, err
	}
	if r.with, err = etcddata.New(ctx, e, r.own, recoverCommand); err != nil {
		return false, err
	}
	if p.hasQuorum {
		if r.own.IsForced() { // it was set by hand: the next start would forget new members
			return true, r.with.Begin(ctx, e, r.own, etcddata.Forced)
		}
		e.Say("etcd has a quorum: there is nothing to recover. Remove a lost member with " +
			"\"kubeadm etcd members remove\"")
		return false, nil
	}
	saves, err := r.canSave(ctx, e, f)
	if err != nil {
		return false, err
	}
	if r.Ask != nil {
		what := append([]string{fmt.Sprintf("etcd is about to continue with this node's data alone, and these "+
			"members are taken as lost: %s. What they alone know is lost", strings.Join(p.names(), ", "))}, p.notes...)
		if r.note != "" {
			what = append(what, r.note)
		}
		if !saves {
			what = append(what, noSnapshot)
		}
		if err := r.Ask(ctx, strings.Join(what, ". ")); err != nil {
			return false, err
		}
	}
	if saves {
		serializable := f.via
		serializable.Serializable = true
		if _, err := staticpod.SaveEtcdSnapshot(ctx, e, r.n, serializable); err != nil {
			return false, fmt.Errorf("before the data are changed: %w", err)
		}
	}
	if p, err = r.plan(ctx, e, f); err != nil {
		return false, err
	}
	if p.hasQuorum {
		e.Say("etcd has a quorum again: there is nothing to recover")
		return false, nil
	}
	r.with.Others, r.with.Lost = p.names(), p.others
	return true, r.with.Begin(ctx, e, r.own, etcddata.Forcing)
}

const noSnapshot = "No snapshot can be saved before, as this node's etcd serves no clients, for example because it " +
	"was started without a quorum"

// canSave reports whether a snapshot of the data can be saved before they are changed. A member that was
// started without a quorum serves none; its data stay the same but for the list of the members.
func (r *recovery) canSave(ctx context.Context, e *engine.Env, f fence) (bool, error) {
	err := e.Await(ctx, world.Condition{Name: "this node's etcd member to serve its data", Timeout: servePeriod,
		External: true,
		Check: func(ctx context.Context, reader state.Reader) error {
			_, err := reader.MemberStatus(ctx, f.via, f.ownMember())
			return err
		}})
	if err != nil && ctx.Err() == nil {
		e.Warn("no snapshot is saved before the members are changed: this node's etcd serves no clients (%v)", err)
	}
	return err == nil, ctx.Err()
}

// plan is that of the fence, for a member that answers: its data are used.
func (r *recovery) plan(ctx context.Context, e *engine.Env, f fence) (fencePlan, error) {
	var known []state.Member
	if r.with != nil {
		known = r.with.Lost
	}
	p, err := f.plan(ctx, e, known)
	if err != nil || p.hasQuorum {
		return p, err
	}
	if _, err := r.awaitMembers(ctx, e); ctx.Err() != nil {
		return p, err
	} else if err != nil {
		hints := []string{"see why it does not run: crictl ps -a --name etcd; crictl logs CONTAINERID",
			"run the command on another control plane node whose etcd runs", "or restore a snapshot: kubeadm etcd restore FILE"}
		host := node.HostOf(r.own.PeerURL)
		if own, err := e.World.Addresses(ctx); err == nil && net.ParseIP(host) != nil && !nodeaddress.IsOn(own, host) {
			hints = slices.Insert(hints, 0, "this machine does not have the address of its member: give it that for the time being, "+
				"as with: ip address add "+host+" dev eth0; then: systemctl restart kubelet")
		}
		return p, problem.During("this node's etcd member does not answer, so its data cannot be used", err, hints...)
	}
	return p, nil
}

// checkAgain reports whether an interrupted run is to be continued. Once it has written the manifest with
// --force-new-cluster it is: etcd has started with that, or will. Before, nothing has been changed and the
// other members may have come back since, so all is checked again. If it must not be forced any more, the
// record is removed, for other commands to work again.
func (r *recovery) checkAgain(ctx context.Context, e *engine.Env) (isNeeded bool, err error) {
	isForced, err := etcddata.IsForced(ctx, e.World, r.n.Paths)
	if err != nil || isForced || r.with.Stage == etcddata.Forced {
		return err == nil, err
	}
	e.Say("nothing was changed by the interrupted \"%s\" yet: checking the members again", r.with.Command)
	f := newFence(r.n, r.as, r.own, slices.Concat(r.Lost, r.with.Others))
	p, err := r.plan(ctx, e, f)
	switch {
	case ctx.Err() != nil:
		return false, err
	case err == nil && !p.hasQuorum:
		r.with.Others, r.with.Lost = p.names(), p.others
		return true, r.with.Enter(ctx, e, etcddata.Forcing)
	case err == nil && len(p.others) == 0: // it was forced, but the manifest was then restored
		return true, r.with.Enter(ctx, e, etcddata.Forced)
	}
	if left := r.replace(ctx, e, r.own.Manifest); left != nil { // removes the record of the replacement
		return false, errors.Join(err, left)
	}
	if left := r.with.End(ctx, e); err != nil || left != nil {
		return false, errors.Join(err, left)
	}
	e.Say("etcd has a quorum again: there is nothing to recover")
	return false, nil
}

// force starts etcd once with --force-new-cluster, which reduces the members to this one, and then without
// it. That it was forced is stored: members that were added since are kept.
func (r *recovery) force(ctx context.Context, e *engine.Env) error {
	if r.with.Stage == etcddata.Forcing {
		forced, err := r.own.ManifestForced()
		if err != nil {
			return err
		}
		if err := r.replace(ctx, e, forced); err != nil {
			return err
		}
		if err := r.with.Enter(ctx, e, etcddata.Forced); err != nil {
			return err
		}
	}
	members, err := r.awaitMembers(ctx, e)
	if ctx.Err() != nil {
		return err
	}
	if err != nil { // etcd has them in its data: the list in the manifest only says where others may be
		members = []state.Member{{Name: r.own.Name, PeerURLs: []string{r.own.PeerURL}}}
	}
	members = slices.DeleteFunc(members, func(m state.Member) bool { // a dry run finds all
		return slices.Contains(r.with.Others, untrusted.Line(etcdcluster.MemberName(m)))
	})
	alone, err := r.own.ManifestWith(members)
	if err != nil {
		return err
	}
	if err := r.replace(ctx, e, alone); err != nil {
		return err
	}
	healthy, err := etcddata.Healthy(ctx, e, release.APIServer)
	if err == nil {
		err = e.Await(ctx, healthy)
	}
	if err != nil {
		return health.WithComponentHints(r.n, err)
	}
	return r.with.End(ctx, e)
}

// awaitMembers returns the members that this node's member knows, with or without a quorum.
func (r *recovery) awaitMembers(ctx context.Context, e *engine.Env) (all []state.Member, err error) {
	via := etcdcluster.LocalClient(r.n.Paths, r.own.ClientURL)
	via.Serializable, via.Peer = true, r.own.PeerURL
	err = e.Await(ctx, world.Condition{
		Name: "this node's etcd member to answer", Timeout: quorumReturnTimeout, External: true,
		Check: func(ctx context.Context, reader state.Reader) (err error) {
			all, err = reader.Members(ctx, via)
			return err
		},
	})
	return all, err
}

func (r *recovery) replace(ctx context.Context, e *engine.Env, data []byte) error {
	_, err := (staticpod.Replacement{Node: r.n}).Replace(ctx, e, staticpod.Manifest{Component: manifest.Etcd, Data: data})
	return err
}

// report says what is left to do, and names the Nodes of lost machines.
func (r *recovery) report(ctx context.Context, e *engine.Env) error {
	var b strings.Builder
	b.WriteString(recoveredText)
	nodes, err := e.List(ctx, state.Query{GVK: state.NodeKind, As: r.as,
		LabelSelector: node.ControlPlaneLabel})
	if err != nil && ctx.Err() == nil {
		e.Warn("the Nodes of the lost machines are not known: %v", err)
	}
	var commands []string
	for _, one := range nodes {
		if slices.Contains(r.with.Others, one.GetName()) {
			if c := untrusted.Command("kubectl delete node", one.GetName()); c != "" {
				commands = append(commands, "  "+c)
			}
		}
	}
	if len(commands) > 0 {
		b.WriteString("\nThese Nodes are of machines whose members were taken as lost. If the machines are lost, remove them:\n\n" +
			strings.Join(commands, "\n") + "\n")
	}
	e.Print(b.String())
	return context.Cause(ctx)
}

const recoveredText = `
etcd continues with this node's member alone, and accepts writes again.

On each control plane node that still has its machine, run:

  kubeadm etcd rejoin

In place of lost machines, join new ones as control plane nodes. This prints the command:

  kubeadm token create --print-join-command --upload-certs
`
