package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcddata"
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

// Recover makes this node's member, with its data, the only one of etcd: the quorum is permanently lost.
func Recover(o etcddata.Options) engine.Phase {
	return engine.Phase{Name: "recover", Run: func(ctx context.Context, e *engine.Env) error {
		return recoverQuorum(ctx, e, o)
	}}
}

const recoverCommand = "kubeadm etcd recover"

// servePeriod is how long a member that is slow may take until its data can be saved.
const servePeriod = 20 * time.Second

// recovery is one run of Recover.
type recovery struct {
	etcddata.Options
	n    *node.Node
	as   state.Identity
	own  etcddata.Member
	with *etcddata.Exchange
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
	if r.with == nil {
		isNeeded, err := r.prepare(ctx, e)
		if err != nil || !isNeeded {
			return err
		}
	}
	if err := r.force(ctx, e); err != nil {
		return err
	}
	return r.report(ctx, e)
}

// undoRejoin puts the data back that an interrupted rejoin has kept, since the members from which it
// would get others are lost.
func (r *recovery) undoRejoin(ctx context.Context, e *engine.Env) error {
	if _, err := findOtherMembers(ctx, e, r.n, r.own, r.as); err == nil {
		return r.with.UnfinishedError()
	} else if ctx.Err() != nil {
		return err
	}
	if kept, err := r.with.HasKept(ctx, e); err != nil {
		return err
	} else if kept {
		if err := r.with.Stop(ctx, e); err != nil {
			return err
		}
		if err := r.with.PutBack(ctx, e, r.own); err != nil {
			return err
		}
	}
	e.Say("undoing the interrupted \"%s\": the members whose data it wanted do not answer", r.with.Command)
	if err := r.with.Start(ctx, e, r.own.Manifest); err != nil {
		return err
	}
	if err := r.with.End(ctx, e); err != nil {
		return err
	}
	r.with = nil
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
			return true, r.with.Begin(ctx, e, r.own, etcddata.Forcing)
		}
		e.Say("etcd has a quorum: there is nothing to recover. Remove a lost member with " +
			"\"kubeadm etcd members remove\"")
		return false, nil
	}
	if r.Ask != nil {
		what := append([]string{fmt.Sprintf("etcd is about to continue with this node's data alone, and these "+
			"members are taken as lost: %s. What they alone know is lost", strings.Join(p.names(), ", "))}, p.notes...)
		if err := r.Ask(ctx, strings.Join(what, ". ")); err != nil {
			return false, err
		}
	}
	if err := r.saveSnapshot(ctx, e, f); err != nil {
		return false, err
	}
	if p, err = r.plan(ctx, e, f); err != nil {
		return false, err
	}
	if p.hasQuorum {
		e.Say("etcd has a quorum again: there is nothing to recover")
		return false, nil
	}
	r.with.Others = p.names()
	return true, r.with.Begin(ctx, e, r.own, etcddata.Forcing)
}

// saveSnapshot saves the data before they are changed. A member that was started without a quorum serves
// no snapshot; its data stay the same but for the list of the members.
func (r *recovery) saveSnapshot(ctx context.Context, e *engine.Env, f fence) error {
	err := e.Await(ctx, world.Condition{Name: "this node's etcd member to serve its data", Timeout: servePeriod,
		Check: func(ctx context.Context, reader state.Reader) error {
			_, err := reader.MemberStatus(ctx, f.via, state.Member{Name: r.own.Name, ClientURLs: f.via.Endpoints})
			return err
		}})
	if err != nil && ctx.Err() == nil {
		e.Warn("no snapshot is saved before the members are changed: this node's etcd serves no clients, as after a start "+
			"without a quorum (%v)", err)
	}
	if err != nil {
		return ctx.Err()
	}
	serializable := f.via
	serializable.Serializable = true
	if _, err := staticpod.SaveEtcdSnapshot(ctx, e, r.n, serializable); err != nil {
		return fmt.Errorf("before the data are changed: %w", err)
	}
	return nil
}

// plan is that of the fence, for a member that answers: its data are used.
func (r *recovery) plan(ctx context.Context, e *engine.Env, f fence) (fencePlan, error) {
	p, err := f.plan(ctx, e, nil)
	if err != nil || p.hasQuorum {
		return p, err
	}
	serializable := f.via
	serializable.Serializable, serializable.Peer = true, r.own.PeerURL
	if _, err := e.World.Members(ctx, serializable); err != nil {
		return p, problem.During("this node's etcd member does not answer, so its data cannot be used",
			err, "see why it does not run: crictl ps -a --name etcd; crictl logs CONTAINERID",
			"run the command on another control plane node whose etcd runs",
			"or restore a snapshot: kubeadm etcd restore FILE")
	}
	return p, nil
}

// force starts etcd once with --force-new-cluster, which reduces the members to this one, and then without
// it. If it has a quorum, that has happened: members that were added since are kept.
func (r *recovery) force(ctx context.Context, e *engine.Env) error {
	members := []state.Member{{Name: r.own.Name, PeerURLs: []string{r.own.PeerURL}}}
	found, err := checkWithoutAlarms(ctx, e.World, etcdcluster.LocalClient(r.n.Paths, r.own.ClientURL))
	if err == nil && found.CheckQuorum() == nil {
		members = found.Members
	} else {
		if ctx.Err() != nil {
			return err
		}
		forced, err := r.own.ManifestForced()
		if err != nil {
			return err
		}
		if err := r.replace(ctx, e, forced); err != nil {
			return err
		}
	}
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

func (r *recovery) replace(ctx context.Context, e *engine.Env, data []byte) error {
	_, err := (staticpod.Replacement{Node: r.n}).Replace(ctx, e, staticpod.Manifest{Component: manifest.Etcd, Data: data})
	return err
}

// report says what is left to do, and names the Nodes of lost machines.
func (r *recovery) report(ctx context.Context, e *engine.Env) error {
	var b strings.Builder
	b.WriteString(recoveredText)
	nodes, err := e.List(ctx, state.Query{GVK: state.NodeKind, As: r.as,
		LabelSelector: "node-role.kubernetes.io/control-plane"})
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
