// Package defrag returns the free space of etcd's databases to the file systems, one member at a time,
// and makes a cluster that has run out of space accept writes again.
package defrag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Phase defragments the database of each member, the leader's last, after it has handed over the leadership. If a member has raised the alarm
// NOSPACE, it first compacts the history of the keys, and at the end disarms the alarm.
var Phase = engine.Phase{
	Name:  "etcd",
	Short: "Return the free space of etcd's databases to the file systems",
	Run:   run,
}

func run(ctx context.Context, e *engine.Env) error {
	as, err := e.Admin(ctx)
	if err != nil {
		return err
	}
	client, err := etcdcluster.ReadClient(ctx, e.World, e.Local.Paths)
	if err != nil {
		return err
	}
	if client.External {
		return problem.New(errors.New("kubeadm does not run the members of an external etcd"),
			"defragment them where they run: etcdctl defrag")
	}
	c := cluster{Client: client, timeout: cmp.Or(e.Local.Timeouts.EtcdAPI, 2*time.Minute), skipped: map[uint64]bool{}}
	if err := c.await(ctx, e, "etcd to answer", c.timeout, c.checkAlarms); err != nil {
		return err
	}
	lock := clusterlock.Lock{Node: e.Local.Name, Purpose: "defragmenting etcd", As: []state.Identity{as}}
	if len(c.alarms) > 0 {
		return c.cure(ctx, e, lock)
	}
	return lock.Hold(ctx, e, c.defragmentAll)
}

// cluster is the etcd cluster of this node, as it was seen last.
type cluster struct {
	etcdcluster.Client
	timeout time.Duration // of a wait for healthy members
	isFull  bool          // it rejects writes
	skipped map[uint64]bool

	health etcdcluster.Health // without alarms
	alarms []etcdcluster.Alarm
}

// await looks at the cluster until check is satisfied.
func (c *cluster) await(ctx context.Context, e *engine.Env, what string, timeout time.Duration, check func() error) error {
	err := e.Await(ctx, world.Condition{Name: what, Timeout: timeout, External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			health, err := etcdcluster.CheckHealth(ctx, r, c.Etcd)
			if err != nil {
				return err
			}
			c.health, c.alarms = health.SplitAlarms()
			return check()
		}})
	if err != nil {
		return problem.New(err, "check the members: kubeadm etcd members")
	}
	return nil
}

func (c *cluster) awaitReady(ctx context.Context, e *engine.Env) error {
	return c.await(ctx, e, "all etcd members to be healthy", c.timeout, c.checkReady)
}

func (c *cluster) checkAlarms() error {
	for _, a := range c.alarms {
		if a.Kind != etcdcluster.NoSpace {
			return world.Permanent(fmt.Errorf("etcd has raised the alarm %s: its members must not be defragmented now", a.Kind))
		}
	}
	return nil
}

// checkReady returns an error unless each member that is not skipped may be out of service for a while.
func (c *cluster) checkReady() error {
	if err := c.checkAlarms(); err != nil {
		return err
	}
	if len(c.alarms) > 0 && !c.isFull {
		return world.Permanent(problem.New(errors.New("etcd has run out of space meanwhile"), "re-run the command"))
	}
	errs := []error{c.health.CheckQuorum()}
	for _, m := range c.health.Members {
		name := etcdcluster.MemberName(m)
		switch {
		case c.skipped[m.ID]:
		case m.Learner && !c.isFull:
			errs = append(errs, fmt.Errorf("etcd member %s is a learner, which is still joining", name))
		case c.health.Unhealthy[m.ID] != nil:
			errs = append(errs, fmt.Errorf("etcd member %s is not healthy: %w", name, c.health.Unhealthy[m.ID]))
		default:
			if err := c.health.CheckAppliedIndex(m.ID); err != nil {
				errs = append(errs, fmt.Errorf("etcd member %s is behind: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// How long a full cluster waits for members that do not answer, and for the pages of compacted
// histories: for neither it must wait.
const (
	skipTimeout      = 30 * time.Second
	freePagesTimeout = 30 * time.Second
)

// cure makes a cluster that has run out of space accept writes again. The order matters: an alarm that
// is disarmed while a database is full is raised again by the next write. The cluster's lock cannot be
// held before, as taking it is a write; but a node that holds it is waited for.
func (c *cluster) cure(ctx context.Context, e *engine.Env, lock clusterlock.Lock) error {
	c.isFull = true
	e.Warn("etcd has run out of space and rejects writes; do not run this command on another node before it has ended")
	if err := lock.AwaitFree(ctx, e); err != nil {
		return err
	}
	if err := c.skipUnhealthy(ctx, e); err != nil {
		return err
	}
	var revision int64
	for _, s := range c.health.Healthy {
		revision = max(revision, s.Revision)
	}
	e.Say("compacting etcd's history before revision %d", revision)
	if err := e.Do(ctx, change.CompactHistory{Revision: revision, Via: c.Etcd}); err != nil {
		return err
	}
	// Some may have less to free than others: no error then, only less is freed.
	_ = c.await(ctx, e, "etcd members to free the pages of their histories", freePagesTimeout, c.checkFreePages)
	if err := c.defragmentAll(ctx, e); err != nil {
		return err
	}
	if err := e.Await(ctx, world.Condition{Name: "the databases of etcd to be smaller than their quota", Timeout: time.Second,
		Check: func(context.Context, state.Reader) error { return c.checkQuota() }}); err != nil {
		return err
	}
	for _, a := range c.alarms { // also those that were raised meanwhile
		e.Say("disarming the alarm %s of etcd member %s", a.Kind, c.nameOf(a.Member))
		if err := e.Do(ctx, change.DisarmAlarm{Member: a.Member, Kind: a.Kind, Via: c.Etcd}); err != nil {
			return err
		}
	}
	return c.awaitWrites(ctx, e, lock)
}

// skipUnhealthy skips members that are not healthy, if the others are enough for a quorum: one that is
// lost must not keep the cluster read-only.
func (c *cluster) skipUnhealthy(ctx context.Context, e *engine.Env) error {
	err := c.await(ctx, e, "all etcd members to be healthy", min(skipTimeout, c.timeout), c.checkReady)
	if err == nil || ctx.Err() != nil || world.IsPermanent(err) {
		return err
	}
	for _, m := range c.health.Members {
		if why := c.health.Unhealthy[m.ID]; why != nil {
			c.skipped[m.ID] = true
			e.Warn("etcd member %s is skipped: %v", etcdcluster.MemberName(m), why)
		}
	}
	return c.awaitReady(ctx, e)
}

// checkFreePages is an error until the members have about the same data in use: only the one that was
// asked to compact has waited for the end.
func (c *cluster) checkFreePages() error {
	least := int64(0)
	for _, s := range c.health.Healthy {
		if least == 0 || s.DBInUse < least {
			least = s.DBInUse
		}
	}
	for _, m := range c.health.Members {
		if used := c.health.Healthy[m.ID].DBInUse; used > least+least/4+minFree {
			return fmt.Errorf("etcd member %s still uses %s, another one %s", etcdcluster.MemberName(m),
				etcdcluster.FormatSize(used), etcdcluster.FormatSize(least))
		}
	}
	return nil
}

// checkQuota is an error if a database is still as large as its quota.
func (c *cluster) checkQuota() error {
	for _, m := range c.health.Members {
		s := c.health.Healthy[m.ID]
		if s.DBQuota > 0 && s.DBSize >= s.DBQuota {
			return world.Permanent(problem.New(fmt.Errorf("the database of etcd member %s is still full: %s is in use, and the quota is %s",
				etcdcluster.MemberName(m), etcdcluster.FormatSize(s.DBInUse), etcdcluster.FormatSize(s.DBQuota)),
				"delete objects that are not needed, such as old Events or custom resources, and re-run the command",
				"or raise the quota: etcd.local.extraArgs, quota-backend-bytes"))
		}
	}
	return nil
}

// writeTimeout is longer than a Lease lasts that its holder does not renew: one that another node holds
// for that time is renewed, so that writes work.
const writeTimeout = 2 * time.Minute

// awaitWrites waits until no alarm is left and takes the cluster's lock, which is a write through the API
// server.
func (c *cluster) awaitWrites(ctx context.Context, e *engine.Env, lock clusterlock.Lock) error {
	if err := e.Await(ctx, world.Condition{Name: "etcd to have no alarm", Timeout: c.timeout,
		Check: func(ctx context.Context, r state.Reader) error {
			health, err := etcdcluster.CheckHealth(ctx, r, c.Etcd)
			if err != nil {
				return err
			}
			if _, alarms := health.SplitAlarms(); len(alarms) > 0 {
				return fmt.Errorf("member %s has raised the alarm %s", c.nameOf(alarms[0].Member), alarms[0].Kind)
			}
			return nil
		}}); err != nil {
		return err
	}
	lock.Timeout = writeTimeout
	err := lock.Hold(ctx, e, func(context.Context, *engine.Env) error { return nil })
	if err != nil && !errors.Is(err, clusterlock.ErrHeld) {
		return problem.During("checking that the cluster accepts writes", err, "re-run the command")
	}
	if err := c.awaitReady(ctx, e); err != nil {
		return err
	}
	if len(c.alarms) == 0 { // a dry run has disarmed none
		e.Say("the cluster accepts writes again")
	}
	return nil
}

// defragmentAll defragments one member after the other. Which one is next is decided by what the members
// say at that time: all that are not skipped are healthy, and the leader is last.
func (c *cluster) defragmentAll(ctx context.Context, e *engine.Env) error {
	if err := c.awaitReady(ctx, e); err != nil {
		return err
	}
	var freed int64
	done := map[uint64]bool{}
	for m := c.next(done); m != nil; m = c.next(done) {
		done[m.ID] = true
		name, before := etcdcluster.MemberName(*m), c.health.Healthy[m.ID]
		sizes := fmt.Sprintf("%s, of which %s is in use", etcdcluster.FormatSize(before.DBSize),
			etcdcluster.FormatSize(before.DBInUse))
		least := c.leastFree(before)
		if before.DBSize-before.DBInUse < least {
			e.Say("etcd member %s has nothing to free: %s", name, sizes)
			continue
		}
		e.Say("defragmenting etcd member %s: %s", name, sizes)
		if before.DBInUse > slowSize {
			e.Warn("etcd member %s answers nothing until %s are written; if that takes longer than its liveness probe "+
				"allows, 80 seconds by default, the kubelet restarts it, and nothing is freed", name,
				etcdcluster.FormatSize(before.DBInUse))
		}
		successor := c.findSuccessor(*m)
		if successor != 0 {
			e.Say("moving the leadership to etcd member %s first", c.nameOf(successor))
		}
		if err := e.Do(ctx, change.Defragment{Member: *m, MinFree: least, Via: c.Etcd,
			Successor: successor}); err != nil {
			return err
		}
		if err := c.awaitReady(ctx, e); err != nil {
			return err
		}
		// A dry run has freed nothing.
		if after := c.health.Healthy[m.ID]; after.DBSize < before.DBSize {
			freed += before.DBSize - after.DBSize
			e.Say("etcd member %s has freed %s and has %s now", name, etcdcluster.FormatSize(before.DBSize-after.DBSize),
				etcdcluster.FormatSize(after.DBSize))
		}
	}
	if freed > 0 {
		e.Say("freed %s in total", etcdcluster.FormatSize(freed))
	}
	return nil
}

// next returns a member that is not done, the leader only if there is no other one, or nil.
func (c *cluster) next(done map[uint64]bool) (leader *state.Member) {
	for i := range c.health.Members {
		m := &c.health.Members[i]
		switch {
		case done[m.ID] || c.skipped[m.ID]:
		case c.health.Healthy[m.ID].Leader == m.ID:
			leader = m
		default:
			return m
		}
	}
	return leader
}

// findSuccessor returns the ID of the member that is to lead while m cannot: of the healthy voters, the
// one that is least behind. It is 0 if m does not lead.
func (c *cluster) findSuccessor(m state.Member) (id uint64) {
	if c.health.Healthy[m.ID].Leader != m.ID {
		return 0
	}
	for _, other := range c.health.Members {
		s, isHealthy := c.health.Healthy[other.ID]
		if other.ID != m.ID && !other.Learner && isHealthy && !c.skipped[other.ID] &&
			(id == 0 || s.AppliedIndex > c.health.Healthy[id].AppliedIndex) {
			id = other.ID
		}
	}
	return id
}

const (
	minFree  = 1 << 20 // bytes
	slowSize = 2 << 30 // bytes in use: a disk that writes 25 MB/s needs 80 seconds
)

// leastFree is how much must be free for a defragmentation to be worth its interruption: a tenth of the
// database, and anything if the cluster accepts no writes without it.
func (c *cluster) leastFree(s state.MemberStatus) int64 {
	if c.isFull {
		return minFree
	}
	return max(s.DBSize/10, minFree)
}

func (c *cluster) nameOf(id uint64) string {
	if m := c.health.FindByNameOrID(etcdcluster.FormatID(id)); m != nil {
		return etcdcluster.MemberName(*m)
	}
	return etcdcluster.FormatID(id)
}
