package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Restore replaces the data of the etcd cluster by those of a snapshot. This node's member becomes its
// only one.
func Restore(o etcddata.Options) engine.Phase {
	return engine.Phase{Name: "restore", Run: func(ctx context.Context, e *engine.Env) error {
		return restoreSnapshot(ctx, e, o)
	}}
}

// restoration is one run of Restore.
type restoration struct {
	etcddata.Options
	n    *node.Node
	as   state.Identity
	own  etcddata.Member
	with *etcddata.Exchange
	// known are other members that etcd may not list
	known []state.Member
	// isFirst is set in the run that exchanged the data: no command has reported yet that they are restored
	isFirst bool
}

func restoreSnapshot(ctx context.Context, e *engine.Env, o etcddata.Options) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	if o.Undo {
		return undoRestore(ctx, e, &restoration{Options: o, n: n, as: as})
	}
	command := untrusted.Command("kubeadm etcd restore", o.Snapshot)
	if command == "" {
		return fmt.Errorf("the name of the snapshot file %s has characters that cannot be copied into a shell: rename it",
			untrusted.Quote(o.Snapshot))
	}
	unfinished, err := etcddata.Read(ctx, e.World, n.Paths)
	if err != nil {
		return err
	}
	r := &restoration{Options: o, n: n, as: as, with: unfinished}
	if r.own, err = etcddata.ReadMember(ctx, e.World, n.Paths); err != nil {
		return err
	}
	if unfinished != nil && unfinished.Command == command {
		e.Say("resuming the restore of %q", o.Snapshot)
		if err := r.checkLostAgain(ctx, e); err != nil {
			return err
		}
		return r.run(ctx, e)
	}
	if r.with, err = etcddata.New(ctx, e, r.own, command); err != nil {
		return err
	}
	r.isFirst = true
	if err := r.prepare(ctx, e, unfinished); err != nil {
		if r.with.Stage != "" {
			return err // the record refers to the new data: the same command resumes
		}
		// Nothing has been exchanged. Members that were removed by then are added again by rejoin.
		return errors.Join(err, r.with.RemoveStaged(context.WithoutCancel(ctx), e))
	}
	return r.run(ctx, e)
}

// prepare checks everything that can be checked before a change and asks the user. Then it creates the
// new data beside those in use, while the cluster still works, and closes the fence.
func (r *restoration) prepare(ctx context.Context, e *engine.Env, unfinished *etcddata.Exchange) error {
	s, err := r.checkSnapshot(ctx, e)
	if err != nil {
		return err
	}
	if err := r.own.CheckReplaceable(ctx, e.World); err != nil {
		return err
	}
	f := newFence(r.n, r.as, r.own, r.Lost)
	p := fencePlan{}
	if unfinished != nil {
		e.Say("an interrupted \"%s\" is superseded; data that it has kept stay where they are", unfinished.Command)
	}
	r.known = knownMembers(s)
	isBegun := unfinished != nil && unfinished.Token != "" && unfinished.Stage == etcddata.Exchanging
	if isBegun {
		r.known = append(r.known, unfinished.Lost...)
	}
	// Another restore that had stopped etcd has closed the fence: no other command can have changed that. Members
	// that were declared lost may be back.
	isClosed := isBegun && len(unfinished.Lost) == 0
	if isClosed {
		r.with.Others = unfinished.Others
	} else if p, err = f.plan(ctx, e, r.known); err != nil {
		return err
	}
	if isBegun {
		p.revision = max(p.revision, unfinished.Revision)
	}
	if p.hasQuorum && len(r.Lost) > 0 {
		e.Warn("--%s has no effect: etcd has a quorum, so the other members are removed from it", flag.LostMember)
	}
	if p.revision == 0 {
		e.Warn("the revision of the present data is not known: a client that has seen revisions above %d misses changes",
			s.Revision+change.RevisionBump)
	}
	if r.Ask != nil {
		if err := r.Ask(ctx, r.describe(s, p)); err != nil {
			return err
		}
	}
	random := make([]byte, 8)
	if _, err := io.ReadFull(e.Rand("etcd-cluster-token"), random); err != nil {
		return err
	}
	r.with.Token, r.with.Snapshot = fmt.Sprintf("%x", random), r.Snapshot
	r.with.Revision = max(s.Revision, p.revision) + change.RevisionBump
	if err := r.stage(ctx, e); err != nil {
		return err
	}
	if isClosed {
		return r.with.Begin(ctx, e, r.own, etcddata.Exchanging)
	}
	return r.fenceOthers(ctx, e, f, p)
}

// knownMembers are the members that the snapshot names.
func knownMembers(s etcdsnapshot.Info) (all []state.Member) {
	for _, name := range s.Members {
		all = append(all, state.Member{Name: name, PeerURLs: s.PeerURLs[name]})
	}
	return all
}

// describe says which state is lost, and what happens to the other members.
func (r *restoration) describe(s etcdsnapshot.Info, p fencePlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "everything that was written to the cluster after %s was saved (revision %d",
		untrusted.Quote(r.Snapshot), s.Revision)
	if p.revision > 0 {
		fmt.Fprintf(&b, "; now %d", p.revision)
	}
	b.WriteString(") is about to be lost. Pods created since then are deleted, volumes created since then stay behind")
	if names := strings.Join(p.names(), ", "); names != "" && p.hasQuorum {
		fmt.Fprintf(&b, ". The members of etcd on other nodes (%s) are removed; their API servers do not work "+
			"until you run \"kubeadm etcd rejoin\" there", names)
	} else if names != "" {
		fmt.Fprintf(&b, ". These members of etcd are taken as lost: %s", names)
	}
	for _, note := range p.notes {
		b.WriteString(". " + note)
	}
	return b.String()
}

// stage creates the new data.
func (r *restoration) stage(ctx context.Context, e *engine.Env) error {
	e.Say("restoring the data from %q", r.Snapshot)
	if err := r.own.MakeDataDir(ctx, e); err != nil {
		return err
	}
	return e.Do(ctx, change.RestoreSnapshot{Snapshot: r.Snapshot, Dir: r.with.Staged, Name: r.own.Name,
		PeerURL: r.own.PeerURL, Token: r.with.Token, Revision: r.with.Revision})
}

// fenceOthers closes the fence under the cluster's lock, which another node may hold, and stores that the
// exchange begins. The lock is released before its Lease is lost with the data.
func (r *restoration) fenceOthers(ctx context.Context, e *engine.Env, f fence, planned fencePlan) error {
	lock := clusterlock.Lock{Node: r.n.Name, Purpose: "restoring etcd from a snapshot",
		As: []state.Identity{r.as}}
	return lock.HoldIfReachable(ctx, e, func(ctx context.Context, e *engine.Env) error {
		// it may have changed while the data were created and this node waited for the lock
		p, err := f.plan(ctx, e, planned.others)
		if err != nil {
			return err
		}
		if planned.hasQuorum && !p.hasQuorum {
			return problem.New(errors.New("etcd has lost its quorum meanwhile"), "re-run the command")
		}
		r.with.Others = r.cutOff(ctx, e, p)
		if !p.hasQuorum {
			r.with.Lost = p.others
		}
		if err := f.close(ctx, e, p); err != nil {
			return problem.New(err, "re-run the command", "or, if you do not want to restore any more, add the "+
				"members that were removed again: kubeadm etcd rejoin on the nodes of "+strings.Join(p.names(), ", "))
		}
		return r.with.Begin(ctx, e, r.own, etcddata.Exchanging)
	})
}

// cutOff are the names of the nodes whose members are removed, by this run or by one before that was killed
// when it had removed them: etcd lists only those that are left.
func (r *restoration) cutOff(ctx context.Context, e *engine.Env, p fencePlan) []string {
	names := p.names()
	if !p.hasQuorum {
		return names
	}
	limited, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	nodes, err := e.List(limited, state.Query{GVK: state.NodeKind, As: r.as, LabelSelector: node.ControlPlaneLabel})
	if err != nil { // the snapshot names those of its time
		for _, m := range r.known {
			names = append(names, untrusted.Line(etcdcluster.MemberName(m)))
		}
	}
	for _, one := range nodes {
		names = append(names, untrusted.Line(one.GetName()))
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return name == r.n.Name || name == r.own.Name
	})
}

// checkLostAgain returns an error if members that were declared lost have come back since: they continue the
// cluster that this node was about to leave. Once etcd was started with the restored data it is too late.
func (r *restoration) checkLostAgain(ctx context.Context, e *engine.Env) error {
	if len(r.with.Lost) == 0 {
		return nil
	}
	switch r.with.Stage {
	case etcddata.Exchanging:
	case etcddata.Starting:
		if started, err := state.HasEntry(ctx, e.World, r.n.Paths.Manifest(manifest.Etcd)); err != nil || started {
			return err
		}
	default:
		return nil
	}
	f := newFence(r.n, r.as, r.own, slices.Concat(r.Lost, r.with.Others))
	p, err := f.plan(ctx, e, r.with.Lost)
	if err == nil && p.hasQuorum && len(p.others) > 0 {
		err = errors.New("etcd has a quorum again")
	}
	if err != nil && ctx.Err() == nil {
		return problem.New(fmt.Errorf("the restore cannot be resumed: %w", err),
			"to put the previous data back: "+undoCommand)
	}
	return err
}

// run brings the exchange from the stage that it has reached to its end.
func (r *restoration) run(ctx context.Context, e *engine.Env) error {
	if r.with.Stage == etcddata.Exchanging {
		if err := r.exchange(ctx, e); err != nil {
			return err
		}
	}
	if r.with.Stage == etcddata.Starting {
		if err := r.startEtcd(ctx, e); err != nil {
			return r.orUndo(ctx, e, manifest.Etcd, err)
		}
		if err := r.checkRevision(ctx, e); err != nil {
			return err
		}
		if err := r.with.Enter(ctx, e, etcddata.Serving); err != nil {
			return err
		}
	}
	if r.with.Stage == etcddata.Serving {
		if err := r.await(ctx, e, release.APIServer); err != nil {
			if !r.isFirst { // clients may have worked with the restored data: nothing is lost twice unasked
				return problem.New(health.WithComponentHints(r.n, err), "to put the previous data back: "+undoCommand)
			}
			return r.orUndo(ctx, e, release.APIServer, err)
		}
		return r.finish(ctx, e)
	}
	return r.undoAfter(ctx, e, errors.New("the cluster did not run with the restored data"))
}

func (r *restoration) exchange(ctx context.Context, e *engine.Env) error {
	if err := r.with.Stop(ctx, e); err != nil {
		return err
	}
	if err := r.with.PutAside(ctx, e, r.own); err != nil {
		return err
	}
	if err := r.with.UseStaged(ctx, e, r.own); err != nil {
		return err
	}
	return r.with.Enter(ctx, e, etcddata.Starting)
}

// startEtcd starts etcd with the data on disk, and waits for it.
func (r *restoration) startEtcd(ctx context.Context, e *engine.Env) error {
	data, err := r.own.ManifestAlone()
	if err != nil {
		return err
	}
	if err := r.with.Start(ctx, e, data); err != nil {
		return err
	}
	return r.await(ctx, e, manifest.Etcd)
}

func (r *restoration) await(ctx context.Context, e *engine.Env, component string) error {
	healthy, err := etcddata.Healthy(ctx, e, component)
	if err != nil {
		return err
	}
	return e.Await(ctx, healthy)
}

// checkRevision returns an error unless etcd runs with the restored data.
func (r *restoration) checkRevision(ctx context.Context, e *engine.Env) error {
	status, err := e.World.MemberStatus(ctx, etcdcluster.LocalClient(r.n.Paths, r.own.ClientURL),
		state.Member{Name: r.own.Name, ClientURLs: []string{r.own.ClientURL}})
	if err == nil && status.Revision < r.with.Revision {
		err = problem.New(fmt.Errorf("etcd runs, but not with the restored data: its revision is %d, and theirs is %d",
			status.Revision, r.with.Revision),
			"see which directory etcd uses: --data-dir and the volumes in "+r.n.Paths.Manifest(manifest.Etcd))
	}
	return err
}

// orUndo puts the previous data back if the component crashes with the new ones. One that takes long is no
// reason: the next run waits for it again.
func (r *restoration) orUndo(ctx context.Context, e *engine.Env, component string, cause error) error {
	failed := fmt.Errorf("%s does not start: %w", component, cause)
	if ctx.Err() != nil || !world.IsPermanent(cause) {
		return health.WithComponentHints(r.n, failed)
	}
	kept, err := r.with.HasKept(ctx, e)
	if err != nil || !kept {
		return errors.Join(health.WithComponentHints(r.n, failed), err)
	}
	e.Warn("%v", failed)
	if err := r.with.Enter(ctx, e, etcddata.Undoing); err != nil {
		return errors.Join(failed, err)
	}
	return r.undoAfter(ctx, e, failed)
}

// undoAfter puts the previous data back, and returns why and what to do next.
func (r *restoration) undoAfter(ctx context.Context, e *engine.Env, failed error) error {
	if err := r.undo(ctx, e); err != nil {
		return errors.Join(failed, fmt.Errorf("with the previous data: %w", err))
	}
	return problem.New(fmt.Errorf("nothing was restored, and etcd runs with the previous data again: %w", failed),
		r.afterUndo(ctx, e)...)
}

// undo puts the previous data back. Other members were removed from them: this node's is the only one.
func (r *restoration) undo(ctx context.Context, e *engine.Env) error {
	e.Say("putting the previous data of etcd back")
	kept, err := r.with.HasKept(ctx, e)
	if err != nil {
		return err
	}
	if kept {
		if err := r.with.Stop(ctx, e); err != nil {
			return err
		}
		if err := r.with.PutBack(ctx, e, r.own); err != nil {
			return err
		}
	}
	if err = r.startEtcd(ctx, e); err == nil {
		err = r.await(ctx, e, release.APIServer)
	}
	if err != nil {
		return health.WithComponentHints(r.n, err)
	}
	if err := r.with.RemoveStaged(ctx, e); err != nil {
		return err
	}
	return r.with.End(ctx, e)
}

// afterUndo is what to do after the previous data were put back.
func (r *restoration) afterUndo(ctx context.Context, e *engine.Env) (hints []string) {
	if found, err := state.HasEntry(ctx, e.World, r.with.NotStarted()); err == nil && found {
		hints = append(hints, "the data of the snapshot are in "+r.with.NotStarted())
	}
	if len(r.with.Others) > 0 && len(r.with.Lost) == 0 { // lost ones were not removed
		hints = append(hints, fmt.Sprintf("on the nodes of %s: kubeadm etcd rejoin", strings.Join(r.with.Others, ", ")))
	}
	return hints
}

const undoCommand = "kubeadm etcd restore --undo"

// undoRestore puts the previous data back that an unfinished restore has kept, because the user says so.
// Members that joined the restored cluster are fenced as those of the previous one were.
func undoRestore(ctx context.Context, e *engine.Env, r *restoration) (err error) {
	if r.with, err = etcddata.Read(ctx, e.World, r.n.Paths); err != nil {
		return err
	}
	if r.with == nil || r.with.Token == "" {
		return problem.New(errors.New("there is no unfinished restore to undo"),
			"data that a finished restore has replaced are kept beside those in use, in kubeadm-kept-TIME/snap/db")
	}
	kept, err := r.with.HasKept(ctx, e)
	if err != nil {
		return err
	}
	isExchanged := r.with.Stage == etcddata.Starting || r.with.Stage == etcddata.Serving
	if r.with.Kept == "" || !kept && isExchanged {
		return problem.New(errors.New("the restore found no previous data, so none can be put back"),
			"complete it: "+r.with.Command)
	}
	if r.own, err = etcddata.ReadMember(ctx, e.World, r.n.Paths); err != nil {
		return err
	}
	if r.with.Stage == etcddata.Serving {
		f := newFence(r.n, r.as, r.own, r.Lost)
		p, err := f.plan(ctx, e, nil)
		if err != nil {
			return err
		}
		if r.Ask != nil {
			if err := r.Ask(ctx, "everything that was written to the cluster since it was restored is about to be lost"); err != nil {
				return err
			}
		}
		if err := f.close(ctx, e, p); err != nil {
			return err
		}
	}
	if err := r.with.Enter(ctx, e, etcddata.Undoing); err != nil {
		return err
	}
	if err := r.undo(ctx, e); err != nil {
		return err
	}
	text := "\netcd runs with the data from before the restore again.\n"
	for _, hint := range r.afterUndo(ctx, e) {
		text += "- " + hint + "\n"
	}
	e.Print(text)
	return nil
}

// finish restarts what holds state from before the restore, and says what is left to do.
func (r *restoration) finish(ctx context.Context, e *engine.Env) error {
	if err := (staticpod.Replacement{Node: r.n, As: r.as}).Restart(ctx, e, release.ControllerManager,
		release.Scheduler); err != nil {
		return err
	}
	if err := etcddata.ReleaseLeaders(ctx, e, r.as, r.with.Revision); err != nil {
		return err
	}
	if err := r.with.End(ctx, e); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\netcd was restored from %s, and this node's member is its only one.\n", r.Snapshot)
	if len(r.with.Others) > 0 {
		fmt.Fprintf(&b, rejoinOthersText, strings.Join(r.with.Others, ", "))
	}
	if r.with.Kept != "" {
		fmt.Fprintf(&b, "\nThe previous data are in %s.\nRemove that directory once you no longer need them.\n", r.with.Kept)
	}
	e.Print(b.String() + leftoversText)
	return nil
}

const (
	rejoinOthersText = `
On each other control plane node that still has its machine (%s), one at a time, run:

  kubeadm etcd rejoin
`
	leftoversText = `
Objects that were created after the snapshot are gone: look for volumes and load balancers of your cloud provider that
belonged to them.
`
)
